// SPDX-License-Identifier: Apache-2.0

// Package plan decides what the queue manager does next: from the queues that
// are wanted and what is seen to be there, one layer of steps with reasons.
// The queue manager carries them out, looks again and plans again, until there are none.
//
// The life of a queue, and the step that moves it on (what is seen decides, so
// a plan may begin anywhere in it):
//
//	nothing ──CreateTopic──▶ topic ──InitShare──▶ initialised ──List──▶ listed, open
//	                                                                      │ Close
//	nothing ◀──DeleteTopic── topic ◀──Unlist── nobody waits ◀─(drain)── listed, closed
//
// A closed queue that is wanted again as it was is listed open again, with the
// topic it has: what waits there may do so for weeks. One whose flavor came back
// different, or whose topic is another one, is made anew once it is gone.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Seen is what is there. Maps may be nil.
type Seen struct {
	Listed map[compute.QueueName]compute.Queue // the records of the queues topic
	Topics map[compute.QueueName]Topic         // the topics there are
	// Shares tells of topics that are not listed, or listed under another id:
	// the groups in which they were found initialised.
	Shares map[compute.QueueName][]Share
	// Work counts the queued and starting instances that name a queue.
	Work map[compute.QueueName]int
	// Fresh holds the queues that were closed so recently that an instance may
	// have been admitted by a conductor that has not read of it.
	Fresh map[compute.QueueName]bool
	// Settled says that nothing another manager set going can still arrive.
	Settled bool
}

// Topic is one incarnation of a queue's topic.
type Topic struct {
	ID compute.TopicID
	// Ours says that it was made in this manager's time, so that no other can
	// have begun to initialise it.
	Ours bool
}

// Share is an initialised share state.
type Share struct {
	Group   string
	TopicID compute.TopicID
}

// Rules bound a plan.
type Rules struct {
	PerGroup int              // most queues of one share group
	Group    func(int) string // the name of the n-th share group; pure
}

// Op is what a step does.
type Op uint8

// The steps, in the order they are carried out.
const (
	Close       Op = iota + 1 // write the record with State closed
	Unlist                    // write the record's tombstone
	DeleteTopic               // delete the topic of that id
	CreateTopic               // make the topic if it is missing
	InitShare                 // initialise the share state of Queue.TopicID in Queue.Group
	List                      // write the record
)

// Makes says whether the step brings a queue nearer to being there, for which nobody needs to know all instances.
func (o Op) Makes() bool { return o == CreateTopic || o == InitShare || o == List }

var opNames = [...]string{"", "close", "unlist", "delete topic", "create topic", "init share", "list"}

// String is the step's name in logs.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("step(%d)", o)
}

// Step is one thing to do, and why. Each is safe to do again, except InitShare:
// on a queue in use it makes finished work come back. It is planned only for a
// topic id that was not found initialised, and where no other manager may be at it
// (Seen.Settled, Topic.Ours).
type Step struct {
	Op    Op
	Queue compute.Queue // the record to write; of the others Name, Group, TopicID count
	Why   string
}

// Next plans the next layer: by Op, then by name, at most one step a queue,
// only that Unlist and DeleteTopic come together (DeleteTopic must not be done
// if Unlist failed).
func Next(wanted []compute.Queue, seen Seen, rules Rules) []Step {
	p := planner{seen: seen, groups: newGroups(seen, rules)}
	want := make(map[compute.QueueName]bool, len(wanted))
	for _, q := range slices.SortedFunc(slices.Values(wanted), byName) {
		if !want[q.Name] {
			want[q.Name] = true
			p.keep(q)
		}
	}
	for name := range seen.Listed {
		if !want[name] {
			p.end(name, "no flavor and choices ask for it any more")
		}
	}
	for name := range seen.Topics {
		if _, listed := seen.Listed[name]; !listed && !want[name] {
			p.end(name, "no flavor and choices ask for it any more")
		}
	}
	slices.SortStableFunc(p.steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Queue.Name, b.Queue.Name))
	})
	return p.steps
}

type planner struct {
	seen   Seen
	groups groups
	steps  []Step
}

func (p *planner) step(op Op, q compute.Queue, why string) {
	p.steps = append(p.steps, Step{Op: op, Queue: q, Why: why})
}

// keep brings a wanted queue one step nearer to being listed and open.
func (p *planner) keep(want compute.Queue) {
	listed, isListed := p.seen.Listed[want.Name]
	isListed = isListed && !listed.CannotBeMade()
	topic, exists := p.seen.Topics[want.Name]
	want.State, want.Error, want.TopicID, want.Group = compute.QueueOpen, "", topic.ID, ""
	if isListed {
		want.Group = listed.Group // for life
	}
	switch {
	case isListed && listed.State == compute.QueueClosed && p.mayReopen(listed, want, topic):
		p.step(List, want, "it is wanted again, as it was")
	case isListed && listed.State == compute.QueueClosed:
		p.end(want.Name, "it was closed; it is made anew once it is gone")
	case isListed && !listed.SameNeeds(want):
		p.end(want.Name, "its flavor or its choices were replaced by others of the same name")
	case !exists && isListed:
		p.step(CreateTopic, want, "its topic is gone")
	case !exists:
		p.step(CreateTopic, want, "it is wanted")
	case isListed && listed.TopicID == topic.ID:
		if listed.Error != "" {
			p.step(List, want, "its error is over")
		}
	default:
		p.introduce(want, topic, isListed)
	}
}

// mayReopen says whether a closed queue can be listed open again: it is for the same machines, its topic is the one
// that was initialised, and no other manager can still unlist it and delete that topic.
func (p *planner) mayReopen(listed, want compute.Queue, topic Topic) bool {
	return p.seen.Settled && listed.TopicID == topic.ID && listed.SameNeeds(want)
}

// introduce lists a topic that exists, once its share state is initialised.
func (p *planner) introduce(want compute.Queue, topic Topic, isListed bool) {
	if group, ok := p.initialised(want.Name, topic.ID, want.Group); ok {
		want.Group = group
		p.step(List, want, "its topic is there and initialised")
		return
	}
	if !topic.Ours && !p.seen.Settled {
		return // the manager that was active before may be at it
	}
	why := "its topic is new"
	if isListed {
		why = "its topic is another one than is listed"
	}
	if want.Group == "" {
		want.Group = p.groups.take()
	}
	p.step(InitShare, want, why)
}

// initialised finds the group in which this very topic is initialised: the
// queue's own if it has one.
func (p *planner) initialised(name compute.QueueName, id compute.TopicID, group string) (string, bool) {
	for _, s := range p.seen.Shares[name] {
		if s.TopicID == id && (group == "" || s.Group == group) {
			return s.Group, true
		}
	}
	return "", false
}

// end brings a queue one step nearer to being gone.
func (p *planner) end(name compute.QueueName, why string) {
	listed, isListed := p.seen.Listed[name]
	topic, exists := p.seen.Topics[name]
	if !isListed {
		listed = compute.Queue{Name: name}
	}
	if isListed && listed.State == compute.QueueOpen {
		listed.State, listed.Error = compute.QueueClosed, ""
		p.step(Close, listed, why)
		return
	}
	if p.seen.Work[name] > 0 || p.seen.Fresh[name] {
		return // drains; what is queued or starting there may need it
	}
	if isListed {
		p.step(Unlist, listed, "no queued or starting instance names it")
	}
	if exists {
		listed.TopicID = topic.ID
		p.step(DeleteTopic, listed, "no queued or starting instance names it, and nobody is told of it")
	}
}

func byName(a, b compute.Queue) int { return cmp.Compare(a.Name, b.Name) }

// groups hands out places in share groups, the lowest group with room first.
type groups struct {
	rules Rules
	used  map[string]int
	next  int
}

// newGroups counts the queues of each group: what is listed, and what was
// initialised and not yet listed.
func newGroups(seen Seen, rules Rules) groups {
	g := groups{rules: rules, used: map[string]int{}}
	for _, q := range seen.Listed {
		if q.Group != "" {
			g.used[q.Group]++
		}
	}
	for name, shares := range seen.Shares {
		for _, s := range shares {
			if s.Group != seen.Listed[name].Group && s.TopicID == seen.Topics[name].ID {
				g.used[s.Group]++
			}
		}
	}
	return g
}

func (g *groups) take() string {
	for g.used[g.rules.Group(g.next)] >= g.rules.PerGroup {
		g.next++
	}
	name := g.rules.Group(g.next)
	g.used[name]++
	return name
}

// Groups lists the share groups that may hold something: those named by listed
// queues, and as many as the wanted queues may need.
func Groups(wanted int, listed map[compute.QueueName]compute.Queue, rules Rules) []string {
	names := map[string]bool{}
	for _, q := range listed {
		if q.Group != "" {
			names[q.Group] = true
		}
	}
	most := max(wanted, len(listed))/rules.PerGroup + 1
	for n := range most {
		names[rules.Group(n)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// world is the far end in miniature: what steps are done to, with Kafka's and
// the protocol's rules. It collects every breach.
type world struct {
	wanted   []compute.Queue
	seen     Seen
	rules    Rules
	ids      int
	inits    map[compute.TopicID]map[string]int
	breaches []string
}

func newWorld(perGroup int) *world {
	return &world{
		seen: Seen{
			Listed: map[compute.QueueName]compute.Queue{}, Topics: map[compute.QueueName]Topic{},
			Shares: map[compute.QueueName][]Share{}, Work: map[compute.QueueName]int{},
			Fresh: map[compute.QueueName]bool{}, Settled: true,
		},
		rules: Rules{PerGroup: perGroup, Group: func(n int) string { return fmt.Sprintf("g%d", n) }},
		inits: map[compute.TopicID]map[string]int{},
	}
}

func (w *world) plan() []Step { return Next(w.wanted, w.seen, w.rules) }

func (w *world) breach(format string, args ...any) {
	w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
}

func (w *world) newID() compute.TopicID {
	w.ids++
	return compute.TopicID(fmt.Sprint(w.ids))
}

// do carries out one step.
func (w *world) do(s Step) {
	name := s.Queue.Name
	switch s.Op {
	case CreateTopic:
		if _, there := w.seen.Topics[name]; !there {
			w.seen.Topics[name] = Topic{ID: w.newID(), Ours: true}
		}
	case InitShare:
		w.init(s.Queue)
	case List, Close:
		w.write(s)
	case Unlist:
		if w.seen.Work[name] > 0 {
			w.breach("%s unlisted with work", name)
		}
		delete(w.seen.Listed, name)
	case DeleteTopic:
		w.deleteTopic(s.Queue)
	default:
		w.breach("unknown step %s", s.Op)
	}
}

func (w *world) init(q compute.Queue) {
	if t := w.seen.Topics[q.Name]; t.ID != q.TopicID {
		w.breach("%s: initialised for id %s, the topic is %s", q.Name, q.TopicID, t.ID)
	}
	if w.inits[q.TopicID] == nil {
		w.inits[q.TopicID] = map[string]int{}
	}
	if w.inits[q.TopicID][q.Group]++; w.inits[q.TopicID][q.Group] > 1 {
		w.breach("%s: topic %s initialised twice", q.Name, q.TopicID)
	}
	w.seen.Shares[q.Name] = append(w.seen.Shares[q.Name], Share{Group: q.Group, TopicID: q.TopicID})
}

// write checks what the record promises to agents and conductors.
func (w *world) write(s Step) {
	old, was := w.seen.Listed[s.Queue.Name]
	switch {
	case s.Op == Close && (!was || s.Queue.State != compute.QueueClosed):
		w.breach("%s closed, it was not open", s.Queue.Name)
	case s.Op == List && was && old.State == compute.QueueClosed && !old.CannotBeMade() &&
		(!old.SameNeeds(s.Queue) || old.TopicID != s.Queue.TopicID || !w.seen.Settled):
		w.breach("%s opened again, and it is another or may be deleted yet", s.Queue.Name)
	case s.Op == List && w.inits[s.Queue.TopicID][s.Queue.Group] == 0:
		w.breach("%s listed, its topic %s is not initialised in %s", s.Queue.Name, s.Queue.TopicID, s.Queue.Group)
	case was && !old.CannotBeMade() && old.Group != s.Queue.Group:
		w.breach("%s moved from group %s to %s", s.Queue.Name, old.Group, s.Queue.Group)
	}
	w.seen.Listed[s.Queue.Name] = s.Queue
	n := 0
	for _, q := range w.seen.Listed {
		if q.Group == s.Queue.Group {
			n++
		}
	}
	if n > w.rules.PerGroup {
		w.breach("%d queues in group %s", n, s.Queue.Group)
	}
}

func (w *world) deleteTopic(q compute.Queue) {
	if _, listed := w.seen.Listed[q.Name]; listed {
		w.breach("%s: topic deleted while listed", q.Name)
	}
	if w.seen.Work[q.Name] > 0 || w.seen.Fresh[q.Name] {
		w.breach("%s: topic deleted with work", q.Name)
	}
	if w.seen.Topics[q.Name].ID == q.TopicID {
		delete(w.seen.Topics, q.Name)
		delete(w.seen.Shares, q.Name) // a group forgets topics that are gone
	}
}

// reached says what is still different from what is wanted.
func (w *world) reached() []string {
	var out []string
	want := map[compute.QueueName]bool{}
	for _, q := range w.wanted {
		want[q.Name] = true
		got, ok := w.seen.Listed[q.Name]
		closed := ok && got.State == compute.QueueClosed
		switch busy := w.seen.Work[q.Name] > 0 || w.seen.Fresh[q.Name]; {
		case closed && busy && !(got.SameNeeds(q) && got.TopicID == w.seen.Topics[q.Name].ID && w.seen.Settled),
			!got.SameNeeds(q) && closed:
			// drains first
		case !ok || closed || !got.SameNeeds(q) || got.Error != "" || got.TopicID != w.seen.Topics[q.Name].ID:
			out = append(out, fmt.Sprintf("%s is %+v", q.Name, got))
		}
	}
	for name := range w.seen.Listed {
		if !want[name] && w.seen.Work[name] == 0 && !w.seen.Fresh[name] {
			out = append(out, string(name)+" is listed")
		}
	}
	for name := range w.seen.Topics {
		if !want[name] && w.seen.Work[name] == 0 && !w.seen.Fresh[name] {
			out = append(out, string(name)+" has a topic")
		}
	}
	return out
}

// show is the state, one queue a line.
func (w *world) show() string {
	names := map[compute.QueueName]bool{}
	for n := range w.seen.Listed {
		names[n] = true
	}
	for n := range w.seen.Topics {
		names[n] = true
	}
	out := ""
	for _, n := range slices.Sorted(maps.Keys(names)) {
		line := string(n) + ":"
		if t, ok := w.seen.Topics[n]; ok {
			line += fmt.Sprintf(" topic=%s", t.ID)
		}
		if q, ok := w.seen.Listed[n]; ok {
			line += fmt.Sprintf(" listed=%s,%s,%s", q.State, q.Group, q.TopicID)
			if q.Error != "" {
				line += " error=" + q.Error
			}
		}
		out += line + "\n"
	}
	return out
}

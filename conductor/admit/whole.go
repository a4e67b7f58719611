// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"maps"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/cover"
)

// A set of which all have to be on one host is *offered whole*, if there is a queue that covers the sum of its parts:
// one build in that queue, which one host takes for all of them (decision 0066). The record of each part says in
// which queue, so that queue managers ring hosts for that, and a new owner goes on with it. The part that leads, the
// first boot of the set, stands for the publication: where it landed, whether it was lost. The others are *carried*:
// nothing is published for them.
//
//	parts ◀──no host has taken it for a time──▶ whole ──a part is claimed──▶ the rest is offered to that host alone
//
// What host takes it decides nothing: each part is claimed by itself, and all are granted in one step, as of any set.
// So a host that has taken only some, or has lost some, leaves a set whose rest is offered as that of any affinity
// group.

// queueOf is where the work of an entry is published.
func queueOf(e *entry) compute.QueueName {
	if q := e.inst.Whole(); q != "" && e.inst.Leads() {
		return q
	}
	return e.inst.Queue
}

// isCarried says whether an instance is published by another of its set.
func isCarried(inst *compute.Instance) bool { return inst.Whole() != "" && !inst.Leads() }

// postponeWhole leaves the offer of one of a set that is offered whole to the end of the step: of all of it there is
// one.
func (s *step) postponeWhole(e *entry) bool {
	if e.inst.Whole() == "" || !e.inst.PublishAt.IsZero() || e.kept() != nil {
		return false
	}
	s.unpublish(e)
	s.reschedule(e)
	if x := s.setOf(e.inst); !x.postponed {
		x.postponed = true
		s.wholes = append(s.wholes, x)
	}
	return true
}

// offerWholes offers the sets of which offers were left to the end of the step.
func (s *step) offerWholes() {
	for len(s.wholes) > 0 {
		x := s.wholes[0]
		s.wholes, x.postponed = s.wholes[1:], false
		if s.sets[x.id] == x && len(x.members) == int(x.size) {
			s.offerWhole(x)
		}
	}
}

// offerWhole offers a set whole, or, where that cannot be now, what of it is not offered yet in the way that can.
func (s *step) offerWhole(x *set) {
	lead := s.instances[x.id]
	if lead == nil || !x.members[lead] {
		s.decideWhole(x, "")
		return
	}
	q, g := queueOf(lead), lead.group()
	switch {
	case x.wholeIn() == "": // it was decided meanwhile that it is offered in parts, and it is
	case g != nil && s.ruleUnread(g) != nil:
		for e := range x.members {
			if e.kept() == nil {
				s.unpublish(e) // what is carried waits with the one that carries it
			}
		}
		s.eachUnoffered(x, func(e *entry) { s.hold(e) })
	case !g.keepsOnOneHost() || !s.view.listed(q) || g.elsewhere(x):
		s.decideWhole(x, "")
	case x.claimed > 0:
		s.eachUnoffered(x, s.offer) // to the host that has the others
	case !s.allDue(x):
		s.eachUnoffered(x, func(e *entry) { e.pub.state = carried }) // the last of them to be due offers all
	case lead.pub.state == pending || lead.pub.state == known:
		s.eachUnoffered(x, func(e *entry) { s.hold(e) }) // its host may have others of it in hand
	default:
		s.publishWhole(x, q)
	}
}

// resendWhole offers a set anew of which a record is loaded that is published with another one's: that of the one that
// leads may be older.
func (s *step) resendWhole(e *entry) {
	lead := s.instances[e.inst.Boot.Set().ID]
	if lead != nil && lead.inst.State == compute.StateQueued && lead.pub.state == unknown {
		s.emitEffects(lead)
	}
}

// keepsOnOneHost says whether the rule of a group has all members on one host, and nothing else.
func (g *group) keepsOnOneHost() bool {
	return g != nil && g.rule != nil && cover.OnePlace(*g.rule)
}

// elsewhere says whether the group has members on hosts that are not of the set.
func (g *group) elsewhere(x *set) bool { return int(g.there.all) > x.claimed }

func (s *step) allDue(x *set) bool {
	for e := range x.members {
		if e.inst.State != compute.StateQueued || !e.inst.PublishAt.IsZero() {
			return false
		}
	}
	return true
}

// eachUnoffered calls do for those of a set that wait, are due and are offered to nobody.
func (s *step) eachUnoffered(x *set, do func(*entry)) {
	for _, e := range sorted(x.members) {
		if e.inst.State == compute.StateQueued && e.inst.PublishAt.IsZero() && e.pub.state == unpublished {
			do(e)
		}
	}
}

// wholeIn is the queue in which a set is offered whole, by its records; empty: it is offered in parts.
func (x *set) wholeIn() compute.QueueName {
	for e := range x.members {
		return e.inst.Boot.Set().Whole
	}
	return ""
}

// publishWhole publishes one build for all of a set, once its group lets it go.
func (s *step) publishWhole(x *set, q compute.QueueName) {
	for e := range x.members {
		s.unpublish(e)
	}
	if !s.mayGo(s.instances[x.id]) {
		s.eachUnoffered(x, func(e *entry) { s.hold(e) })
		return
	}
	for _, e := range sorted(x.members) {
		if e.pub.state, e.pub.at = carried, s.at(); e.inst.Leads() {
			e.pub.state, e.pub.topic = pending, s.view.Queues[q].TopicID
			s.setOut(e, true)
		}
		s.reschedule(e)
	}
	s.emit(Publish{Queue: q, Build: wholeBuild(x, q, s.at())})
}

// wholeBuild is the build of all of a set together.
func wholeBuild(x *set, q compute.QueueName, now time.Time) (whole compute.Build) {
	all := compute.Resources{}
	var required, forbidden [][]compute.Trait
	var avoid, failed [][]compute.HostID
	var parts []compute.Build
	for _, e := range sorted(x.members) {
		part := buildOf(e.inst, now)
		part.Failed = failedHosts(e.inst)
		part.Group = &compute.BuildGroup{Name: e.inst.Boot.Group()}
		all.Add(part.Resources)
		required, forbidden = append(required, part.Required), append(forbidden, part.Forbidden)
		avoid, failed = append(avoid, part.Avoid), append(failed, part.Failed)
		if parts = append(parts, part); e.inst.Leads() {
			whole = part
		}
	}
	whole.Queue, whole.Resources, whole.Parts = q, all, parts
	whole.Required, whole.Forbidden = union(required...), union(forbidden...)
	whole.Avoid, whole.Failed = union(avoid...), union(failed...)
	whole.UserData, whole.Sealed, whole.Metadata, whole.SSHKeys = nil, "", nil, nil // each part has its own
	for _, part := range parts {
		whole.Deadline = earliest(whole.Deadline, part.Deadline)
	}
	return whole
}

// firstKept takes note that a host has the first claim of a set: what was offered with it is on that host, and is
// offered there again if its claim does not come.
func (s *step) firstKept(x *set) {
	for _, e := range sorted(x.members) {
		if e.pub != nil && e.pub.state == carried && e.inst.PublishAt.IsZero() {
			e.pub.state, e.pub.at, e.pub.told = unknown, s.at(), true
			s.setOut(e, true)
			s.reschedule(e)
		}
	}
}

// inHand says whether one of a set that was offered whole is on its way to a claim on the host of the others.
func (s *step) inHand(e *entry) bool {
	x := s.setOf(e.inst)
	return x != nil && x.claimed > 0 && x.wholeIn() != ""
}

// decideWhole writes into the records of a set where it is offered from now on: whole in a queue, or in parts.
func (s *step) decideWhole(x *set, q compute.QueueName) {
	x.unclaimed = 0
	for _, e := range sorted(x.members) {
		if e.kept() == nil {
			s.unpublish(e) // it may have another queue from here on
		}
		s.change(e, func(inst *compute.Instance) { offerIn(inst, q) })
	}
}

func offerIn(inst *compute.Instance, q compute.QueueName) {
	of := inst.Boot.Set()
	if of.Whole != q {
		of.Whole = q
		inst.Boot.InSet(of)
	}
}

// unclaimedWhole bounds how many tries go by without a claim before a set that is offered whole is offered in parts
// for one: soon, where no host is said to have such room when it is empty. A set may find room in parts that no queue
// covers.
const unclaimedWhole = 5

// offerOtherwise is where a set is offered after a try in which nobody has claimed any of it.
func (s *step) offerOtherwise(x *set) compute.QueueName {
	q := x.wholeIn()
	if q == "" {
		return s.wholeFor(x)
	}
	if x.unclaimed++; x.unclaimed >= unclaimedWhole {
		return ""
	}
	if !s.view.ReadWhole || s.view.Queues[q].State == compute.QueueClosed {
		return ""
	}
	if hosts := s.view.Advice[q].Hosts; hosts.Eligible+hosts.Full+hosts.Avoided == 0 {
		return ""
	}
	return q
}

// wholeFor is the queue in which a set is to be offered whole; empty: in none.
func (s *step) wholeFor(x *set) compute.QueueName {
	var insts []*compute.Instance
	for _, e := range sorted(x.members) {
		if g := e.group(); g == nil || g.elsewhere(x) {
			return ""
		}
		insts = append(insts, e.inst)
	}
	return s.view.cover(insts)
}

// newWhole is that for a set that is being admitted.
func (s *step) newWhole(insts []*compute.Instance) compute.QueueName {
	key := compute.GroupKey{Project: insts[0].Project, Name: insts[0].Boot.Group()}
	if g := s.groups[key]; g != nil && g.there.all > 0 {
		return ""
	}
	return s.view.cover(insts)
}

// cover is the queue in which a set can be offered as one build; empty: in none, or not all read that.
func (v View) cover(insts []*compute.Instance) compute.QueueName {
	rule, ok := v.Groups[compute.GroupKey{Project: insts[0].Project, Name: insts[0].Boot.Group()}]
	if !ok || !v.ReadWhole {
		return ""
	}
	return cover.Queue(maps.Values(v.Queues), rule, v.fitsNowhere, insts)
}

// fitsNowhere says whether a queue's machine is too large for each host that the queue manager knows.
func (v View) fitsNowhere(q compute.QueueName) bool {
	hosts := v.Advice[q].Hosts
	return hosts.Total() > 0 && hosts.NeverFits == hosts.Total()
}

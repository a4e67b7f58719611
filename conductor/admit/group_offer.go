// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// offerElsewhere offers the members of an affinity group anew where they belong somewhere else than before.
func (s *step) offerElsewhere(g *group) {
	if g.rule == nil || !g.rule.Policy.Together() || g.rule.Over != "" {
		g.place = ""
		return
	}
	was := g.place
	if g.place = g.home(); was == g.place {
		return
	}
	s.offerMembers(g)
}

// offerMembers offers members that wait, and that the group does not hold, to the host or queue that is theirs now.
func (s *step) offerMembers(g *group) {
	for _, e := range slices.SortedFunc(maps.Keys(g.members), longestFirst) {
		waits := e.in.outAs != "" || e.pub != nil && e.pub.state == heldByShare // its share is of a queue, and not of a host
		if waits && !pinned(e.inst) && !e.in.gaveUp && !s.inHand(e) {
			s.emitEffects(e)
		}
	}
}

// A host is offered only so many members of one slot at a time (the window): those that wait longest, again and again,
// until they are claimed or end. The others are held, and follow one by one; offered all at once, thousands that do not
// fit would fill its stream again every few minutes. Where the first of a slot have no room the others have none; what
// the host refuses for another reason gives way to those that are held: at once to one that never did so, and to the
// others when its time to be offered again has come. Pinned work has no window, in a group as outside of one.

// hasPlace says whether the members of a group are offered to one host alone, as long as they wait.
func (g *group) hasPlace() bool {
	return g.rule != nil && g.rule.Policy == compute.Affinity && g.rule.Over == "" && g.there.all > 0
}

// inGroupWindow says whether a member may be offered to the host of its group now. It is not counted among those that
// are.
func (s *step) inGroupWindow(e *entry, slot string) bool {
	if pinned(e.inst) {
		return true
	}
	g := e.group()
	if held := g.held[g.line(e)]; held != nil && servedBefore(held.top(), e) {
		return false
	}
	n := g.out.by[slot]
	if e.in.behind.IsZero() {
		n -= g.refused.by[slot]
	}
	return n < uint32(s.opts.GroupWindow)
}

// servedBefore is the order in which members that are held are let go.
func servedBefore(a, b *entry) bool {
	c := latest(a.inst.QueuedAt, a.in.behind).Compare(latest(b.inst.QueuedAt, b.in.behind))
	return cmp.Or(c, cmp.Compare(a.inst.ID, b.inst.ID)) < 0
}

// giveWay puts a member that its host has refused behind those that its group holds now.
func (e *entry) giveWay(now time.Time) {
	if e.in != nil && e.in.refused {
		e.in.behind = now
	}
}

// softUntil is up to when a soft rule is kept for this attempt of a member; zero: it has none.
func (s *State) softUntil(e *entry) time.Time {
	if g := e.group(); g == nil || g.rule == nil || !g.rule.Policy.Soft() {
		return time.Time{}
	}
	return e.inst.UnclaimedSince().Add(s.opts.SoftGroupFor)
}

// softDue is when a member of a soft affinity group stops waiting for its place; zero: it does not wait for it.
func (s *State) softDue(e *entry) time.Time {
	g := e.group()
	if g == nil || g.rule == nil || g.rule.Policy != compute.SoftAffinity || e.in.gaveUp ||
		e.in.heldAs == "" && e.in.outAs == "" {
		return time.Time{}
	}
	return s.softUntil(e)
}

func (s *step) softOver(e *entry) bool { return e.in.gaveUp || !s.at().Before(s.softUntil(e)) }

// asMember is what a member's work is offered as: with what hosts must know of the group, or to the host that the
// group has.
func (s *step) asMember(e *entry, effect Effect) Effect {
	g := e.group()
	if g == nil {
		return effect
	}
	publish, queued := effect.(Publish)
	apart := g.rule != nil && g.rule.Over == "" && g.rule.Policy.Apart()
	member := &compute.BuildGroup{Name: g.key.Name} // so that its host knows its members whatever the rule comes to be
	switch told, _ := effect.(Tell); {
	case queued && apart:
		publish.Build.Group = g.forHosts(s.softUntil(e))
		return publish
	case queued:
		publish.Build.Group = member
		effect = publish
	case told.Command.Build != nil:
		told.Command.Build.Group = member
		return told
	}
	if g.rule == nil || !g.rule.Policy.Together() || g.rule.Over != "" {
		return effect
	}
	if !queued || g.there.all == 0 || g.rule.Policy.Soft() && (s.softOver(e) || e.avoids(g.home())) {
		return effect
	}
	g.place = g.home()
	build := publish.Build
	// It is offered again before that is over, and a host that does not know that it is not wanted any more forgets it
	// then.
	build.WaitUntil = earliest(build.Deadline, s.at().Add(2*s.opts.republish(int(e.pub.republished))))
	if until := s.softUntil(e); !until.IsZero() {
		build.WaitUntil = until
	}
	return tellBuild(compute.HostID(g.place), e.inst, build)
}

// forHosts is what hosts must know of a group that keeps its members apart.
func (g *group) forHosts(until time.Time) *compute.BuildGroup {
	b := &compute.BuildGroup{Name: g.key.Name, Most: g.rule.Most, Until: until}
	for d, n := range g.there.by {
		if n >= g.rule.Most {
			b.Full = append(b.Full, compute.HostID(d))
		}
	}
	slices.Sort(b.Full)
	b.Full = b.Full[:min(len(b.Full), compute.MaxFullHosts)]
	return b
}

// placeRefused hears that a host does not take a member now. That of an affinity group is offered there again later,
// or, where the rule is a preference, to all. One of an anti-affinity group has come to hosts that may not have it
// only, so often that its queue would have dropped it: it is offered again in a moment, by what is known of the group
// then.
func (s *step) placeRefused(e *entry, r compute.Report) {
	g := e.group()
	if g == nil || g.rule == nil || e.in.outAs == "" || e.inst.Attempt != r.Attempt {
		return
	}
	if g.rule.Policy.Apart() {
		s.unpublish(e)
		e.pub.state, e.pub.republished = passed, 0
		e.pub.at = s.at().Add(s.opts.GroupEvery - s.opts.RepublishAfter)
		s.setOut(e, true)
		s.reschedule(e)
		return
	}
	if g.rule.Policy.Soft() {
		e.in.gaveUp = true
		s.emitEffects(e)
		return
	}
	if e.pub.told && !e.in.refused && r.Host == compute.HostID(g.place) {
		e.in.refused = true
		g.refused.add(domainIn(e.in.outAs), 1)
		s.touch(g)
	}
}

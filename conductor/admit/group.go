// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A hard rule of a group holds because claims are granted by one process, one after the other: a claim that would break
// it is denied (groupRefuses), whatever was published to whom. All else here only saves hosts from preparing what
// would be denied. A member is *held* in the conductor while it can be seen that no host may have it:
//
//	anti-affinity   builds say which hosts are full (compute.BuildGroup), and as many wait in queues as there seem to be
//	                hosts for, by the queue manager's advice; one more than none, so that wrong advice holds up nobody
//	affinity        until a member has a host, one waits in its queue, and one more of another slot every while; then
//	                they are offered to that host alone, a few of each slot at a time (its *window*)
//
// A soft rule does the same for Options.SoftGroupFor, and denies nothing.

// group is what a partition knows of one group that has members which have not ended.
type group struct {
	key     compute.GroupKey
	timer                  // of the next look at the advice
	rule    *compute.Group // nil: the catalog does not have it (any more), so there is no rule
	members map[*entry]bool
	there   counts                   // members that may be on a host, by domain
	out     counts                   // members that were published and not claimed yet, by slot
	refused counts                   // affinity: those of them that their host has refused since, by slot
	outAt   time.Time                // when the last of them was
	held    map[string]*heap[*entry] // by line, the one that waits longest first
	spread  spread
	place   string          // where an affinity group's members are offered
	loaded  map[*entry]bool // waiting since before the partition was loaded: perhaps in a queue, perhaps not
	freed   int             // members that have left a host since the last look
	dirty   bool
}

// counts are members by domain.
type counts struct {
	by  map[string]uint32
	all uint32
}

func (c *counts) add(domain string, n int) {
	if c.by == nil {
		c.by = map[string]uint32{}
	}
	c.all = uint32(int(c.all) + n)
	if c.by[domain] = uint32(int(c.by[domain]) + n); c.by[domain] == 0 {
		delete(c.by, domain)
	}
}

// inGroup is what an entry is to its group.
type inGroup struct {
	group *group
	// the domains that it is counted under, each with a mark before it; empty: it is not counted
	thereAs, outAs, lineAs, heldAs string
	spread                         spreadMark
	heldIndex                      int32
	gaveUp                         bool      // soft affinity: this attempt is for any host
	refused                        bool      // it is counted so
	behind                         time.Time // affinity: when it was refused and gave way to what was held
}

// group is the one that an entry is a member of; nil: of none.
func (e *entry) group() *group {
	if e.in == nil {
		return nil
	}
	return e.in.group
}

// counted marks a domain, so that the empty one can be told from none.
func counted(domain string) string { return "=" + domain }

func domainIn(mark string) string { return mark[1:] }

// ensureGroup has a group known before an instance becomes its member, with the rule as it is now.
func (s *State) ensureGroup(inst *compute.Instance, view View) {
	name := inst.Boot.Group()
	key := compute.GroupKey{Project: inst.Project, Name: name}
	if name == "" || inst.State.Ended() || s.groups[key] != nil {
		return
	}
	g := &group{
		key: key, rule: view.rule(key),
		members: map[*entry]bool{}, held: map[string]*heap[*entry]{}, loaded: map[*entry]bool{},
	}
	g.timer = s.newTimer(g)
	s.groups[key] = g
}

// regroup makes the group of an entry's instance count it as it is now. It is called with each new version.
func (s *State) regroup(e *entry) {
	inst := e.inst
	var g *group
	if inst != nil && !inst.State.Ended() && inst.Boot.Rules != nil {
		g = s.groups[compute.GroupKey{Project: inst.Project, Name: inst.Boot.Group()}]
	}
	if was := e.group(); was != nil && was != g {
		s.leaveGroup(e)
	}
	if g == nil {
		return
	}
	if e.in == nil {
		e.in = &inGroup{group: g}
	}
	g.members[e] = true
	there := ""
	if e.host() != "" {
		there = counted(g.domain(e))
	}
	if e.in.thereAs != "" && there != e.in.thereAs {
		g.freed++
	}
	if there != e.in.thereAs {
		g.recount(&g.there, &e.in.thereAs, there)
		s.touch(g)
	}
	if g.countSpread(e, g.spreadMark(e)) {
		s.touch(g)
	}
}

func (s *State) leaveGroup(e *entry) {
	g := e.in.group
	s.unhold(e)
	if e.in.thereAs != "" {
		g.freed++
	}
	g.recount(&g.there, &e.in.thereAs, "")
	g.forgetRefused(e)
	g.recount(&g.out, &e.in.outAs, "")
	g.recount(&g.spread.out, &e.in.lineAs, "")
	g.countSpread(e, spreadMark{})
	delete(g.loaded, e)
	s.touch(g)
	if delete(g.members, e); len(g.members) == 0 {
		s.schedule(&g.timer, time.Time{})
		delete(s.groups, g.key)
	}
	e.in = nil
}

// recount moves an entry from the domain that it is counted under to another.
func (g *group) recount(c *counts, mark *string, next string) {
	if *mark != "" {
		c.add(domainIn(*mark), -1)
	}
	if *mark = next; next != "" {
		c.add(domainIn(next), 1)
	}
}

// forgetRefused no longer counts a member among those that were refused: it is offered again, or not out any more.
func (g *group) forgetRefused(e *entry) {
	if e.in.refused {
		g.refused.add(domainIn(e.in.outAs), -1)
		e.in.refused = false
	}
}

// touch has what the group holds looked at when the step is done.
func (s *State) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		s.touched = append(s.touched, g)
	}
}

// setOut counts an entry among those that hosts may take now, or not.
func (s *State) setOut(e *entry, out bool) {
	g := e.group()
	if g == nil {
		return
	}
	delete(g.loaded, e)
	g.forgetRefused(e)
	mark := ""
	if out {
		mark = counted(g.slot(e))
	}
	if mark != e.in.outAs {
		g.recount(&g.out, &e.in.outAs, mark)
		s.touch(g)
	}
	if mark = ""; out && g.rule != nil && g.rule.Skew > 0 {
		mark = counted(g.line(e))
	}
	if mark != e.in.lineAs {
		g.recount(&g.spread.out, &e.in.lineAs, mark)
	}
	if out {
		g.outAt = s.lastNow
	}
}

// domain is where a member is, or is to be; empty: on any host.
func (g *group) domain(e *entry) string {
	if g.rule != nil && g.rule.Over != "" {
		return string(e.inst.Boot.With[g.rule.Over])
	}
	return string(cmp.Or(e.host(), e.inst.Boot.Host))
}

// host is the host that an instance is on, or that has it prepared and waits for the rest of its set; empty: none.
func (e *entry) host() compute.HostID {
	switch {
	case e.inst.State.OnHost():
		return e.inst.Host
	case e.kept() != nil:
		return e.kept().Host
	}
	return ""
}

// slot names the members that wait and of which one does as well as another: those for one domain, or those of one queue
// that avoid the same hosts. Where members are kept apart over an axis, a domain has many hosts, so it is both. A member
// that no host takes holds up nobody of another slot; if two of one domain are claimed, the second claim is denied.
func (g *group) slot(e *entry) string {
	inst, d := e.inst, g.domain(e)
	if d != "" && (g.rule == nil || g.rule.Over == "" || !g.rule.Policy.Apart()) {
		return d
	}
	if q := inst.Whole(); q != "" {
		return d + "/" + string(q)
	}
	var avoid []string
	for _, h := range inst.Boot.Avoid {
		avoid = append(avoid, string(h))
	}
	slices.Sort(avoid)
	return d + "/" + string(inst.Queue) + "/" + strings.Join(avoid, " ")
}

// home is the domain of most members, the first by name of several: of an affinity group's there is one, unless the
// rule was another when they came; empty: no member has one.
func (g *group) home() string {
	most, best := uint32(0), ""
	for d, n := range g.there.by {
		if n > most || n == most && d < best {
			most, best = n, d
		}
	}
	return best
}

// hold keeps a member until its group lets it go.
func (s *State) hold(e *entry) {
	s.unpublish(e)
	g := e.in.group
	d := g.line(e)
	h := g.held[d]
	if h == nil {
		h = &heap[*entry]{less: servedBefore, index: func(e *entry) *int32 { return &e.in.heldIndex }}
		g.held[d] = h
	}
	e.pub.state, e.in.heldAs = heldByGroup, counted(d)
	h.fix(e)
	s.held.ByGroup++
	s.watchAdvice(g)
}

func waitsLonger(a, b *entry) bool { return longestFirst(a, b) < 0 }

// longestFirst is the order in which members are served.
func longestFirst(a, b *entry) int {
	return cmp.Or(a.inst.QueuedAt.Compare(b.inst.QueuedAt), cmp.Compare(a.inst.ID, b.inst.ID))
}

func (s *State) unhold(e *entry) {
	if e.in == nil || e.in.heldAs == "" {
		return
	}
	d := domainIn(e.in.heldAs)
	e.in.heldAs = ""
	s.held.ByGroup--
	h := e.in.group.held[d]
	if h.remove(e); len(h.items) == 0 {
		delete(e.in.group.held, d)
	}
}

// watchAdvice has a group looked at again soon while it holds something that advice or time may let go.
func (s *State) watchAdvice(g *group) {
	// only members let others go; how a skew counts depends on the catalog, too
	fixed := g.rule != nil && g.rule.Policy.Apart() && g.rule.Over != "" && g.rule.Skew == 0
	if len(g.held) > 0 && !fixed && g.index == 0 {
		s.schedule(&g.timer, s.lastNow.Add(s.opts.GroupEvery))
	}
}

// fire looks at what is held: there may be more hosts.
func (g *group) fire(s *step, _ time.Time) {
	if s.groups[g.key] == g {
		s.touch(g)
		s.releaseGroups()
		s.watchAdvice(g)
	}
}

// releaseGroups publishes what the groups that something happened in hold no longer, the longest waiting first.
func (s *step) releaseGroups() {
	for len(s.touched) > 0 {
		g := s.touched[0]
		s.touched, g.dirty = s.touched[1:], false
		s.offerElsewhere(g)
		for _, d := range slices.Sorted(maps.Keys(g.held)) {
			for h := g.held[d]; h != nil && len(h.items) > 0 && s.mayGo(h.items[0]); {
				s.emitEffects(h.items[0])
			}
		}
		s.publishLoaded(g)
	}
}

// publishLoaded publishes again, for each member that has left a host, the one that waits longest of those of which
// nobody knows whether they are in a queue: another conductor may have held them.
func (s *step) publishLoaded(g *group) {
	if g.freed > 0 && g.rule != nil && g.rule.Skew > 0 {
		s.holdLoaded(g)
	}
	for ; g.freed > 0 && len(g.loaded) > 0; g.freed-- {
		var first *entry
		for e := range g.loaded {
			if first == nil || waitsLonger(e, first) {
				first = e
			}
		}
		s.emitEffects(first)
	}
	g.freed = 0
}

// groupsChanged takes the rules as the catalog has them now. Members that break a new one stay.
func (s *step) groupsChanged(keys []compute.GroupKey) {
	for _, key := range keys {
		g := s.groups[key]
		if g == nil {
			continue
		}
		was := g.rule
		g.rule = s.view.rule(key)
		if was != nil && g.rule != nil && *was == *g.rule {
			g.rule = was
			continue
		}
		s.recountGroup(g)
	}
}

// recountGroup counts all members by the domains of a new rule, and offers those anew that wait: what was published
// says what the rule was.
func (s *step) recountGroup(g *group) {
	waiting := s.denyKeptOf(g)
	for _, e := range sorted(g.members) {
		if e.in.outAs != "" || e.in.heldAs != "" || e.pub != nil && e.pub.state == carried {
			waiting = append(waiting, e)
		}
		s.unhold(e)
		s.setOut(e, false)
		g.recount(&g.there, &e.in.thereAs, "")
	}
	for _, e := range sorted(g.members) {
		s.regroup(e)
	}
	slices.SortFunc(waiting, longestFirst)
	for _, e := range waiting {
		s.emitEffects(e)
	}
}

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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
//	                all are offered to that host alone
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
	outAt   time.Time                // when the last of them was
	held    map[string]*heap[*entry] // by slot, the one that waits longest first
	place   string                   // where an affinity group's members are offered
	loaded  map[*entry]bool          // waiting since before the partition was loaded: perhaps in a queue, perhaps not
	freed   int                      // members that have left a host since the last look
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
	thereAs, outAs, heldAs string
	heldIndex              int
	gaveUp                 bool // soft affinity: this attempt is for any host
	// claims that the rule has denied, the newest last: their hosts have undone what they had prepared, and may have
	// repeated them before they heard it
	denied []compute.ClaimID
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
		key: key, members: map[*entry]bool{}, held: map[string]*heap[*entry]{}, loaded: map[*entry]bool{},
	}
	g.timer = s.newTimer(g)
	if rule, ok := view.Groups[key]; ok {
		g.rule = &rule
	}
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
	if inst.State.OnHost() {
		there = counted(g.domain(inst))
	}
	if e.in.thereAs != "" && there != e.in.thereAs {
		g.freed++
	}
	if there != e.in.thereAs {
		g.recount(&g.there, &e.in.thereAs, there)
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
	g.recount(&g.out, &e.in.outAs, "")
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

// touch has what the group holds looked at when the step is done.
func (s *State) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		s.touched = append(s.touched, g)
	}
}

// published counts an entry among those that hosts may take now, or not.
func (s *State) setOut(e *entry, out bool) {
	g := e.group()
	if g == nil {
		return
	}
	delete(g.loaded, e)
	mark := ""
	if out {
		mark = counted(g.slot(e.inst))
	}
	if mark != e.in.outAs {
		g.recount(&g.out, &e.in.outAs, mark)
		s.touch(g)
	}
	if out {
		g.outAt = s.lastNow
	}
}

// domain is where a member is, or is to be; empty: on any host.
func (g *group) domain(inst *compute.Instance) string {
	switch {
	case g.rule != nil && g.rule.Over != "":
		return string(inst.Boot.With[g.rule.Over])
	case inst.State.OnHost():
		return string(inst.Host)
	}
	return string(inst.Boot.Host)
}

// slot is what members that wait have in common of which one does as well as another: the domain that they are for, or
// their queue and the hosts that they avoid. One that no host takes holds up nobody of another slot.
func (g *group) slot(inst *compute.Instance) string {
	if d := g.domain(inst); d != "" {
		return d
	}
	var avoid []string
	for _, h := range inst.Boot.Avoid {
		avoid = append(avoid, string(h))
	}
	slices.Sort(avoid)
	return "/" + string(inst.Queue) + "/" + strings.Join(avoid, " ")
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

// admitToGroup is why a boot may not be a member; nil if it may, or is of none.
func (v View) admitToGroup(p compute.Project, b *compute.Boot) *compute.Reason {
	name := b.Group()
	if name == "" {
		return nil
	}
	rule, ok := v.Groups[compute.GroupKey{Project: p, Name: name}]
	switch {
	case !ok:
		return &compute.Reason{Code: compute.NoSuchGroup, Detail: fmt.Sprintf("project %s has no group %s", p, name)}
	case rule.Over != "" && b.With[rule.Over] == "":
		return &compute.Reason{
			Code:   compute.GroupRule,
			Detail: fmt.Sprintf("group %s: %s, and the request chooses no %s", name, rule.Rule(), rule.Over),
		}
	}
	return nil
}

// groupRefuses is why a host may not have a member that waits; nil if it may.
func (e *entry) groupRefuses(host compute.HostID) *compute.Reason {
	g := e.group()
	if g == nil || g.rule == nil || g.rule.Policy.Soft() {
		return nil
	}
	d := string(host)
	if g.rule.Over != "" {
		d = g.domain(e.inst)
	}
	here := g.there.by[d]
	switch {
	case g.rule.Policy.Apart() && here >= g.rule.Most:
		return g.breaks(fmt.Sprintf("%s has %d", describeDomain(g.rule, d), here))
	case !g.rule.Policy.Apart() && here < g.there.all:
		return g.breaks(fmt.Sprintf("%s has %d, others have %d", describeDomain(g.rule, d), here, g.there.all-here))
	}
	return nil
}

func describeDomain(rule *compute.Group, domain string) string { return rule.Domain() + " " + domain }

func (g *group) breaks(detail string) *compute.Reason {
	return &compute.Reason{
		Code: compute.GroupRule, Detail: fmt.Sprintf("group %s: %s; %s", g.key.Name, g.rule.Rule(), detail),
	}
}

// waitsForGroup is why a member waits that no host but its group's may have, as its end tells it; nil: that is not why.
func (e *entry) waitsForGroup() *compute.Reason {
	g := e.group()
	switch {
	case g == nil || g.rule == nil:
	case e.in.heldAs != "":
		return g.breaks(fmt.Sprintf("members with a %s: %d; waiting for one before it: %d",
			g.rule.Domain(), g.there.all, g.out.all))
	case g.rule.Policy == compute.Affinity && g.rule.Over == "" && g.there.all > 0:
		why := g.breaks("their host has not taken it")
		why.Host = compute.HostID(g.home())
		return why
	}
	return nil
}

// mayGo says whether a member may be published now. It is not counted among those that are.
func (s *step) mayGo(e *entry) bool {
	g := e.group()
	if g == nil || g.rule == nil {
		return true
	}
	d, slot, rule := g.domain(e.inst), g.slot(e.inst), g.rule
	switch {
	case rule.Policy == compute.SoftAntiAffinity, rule.Policy == compute.SoftAffinity && s.softOver(e):
		return true
	case rule.Policy == compute.AntiAffinity && d != "":
		return g.there.by[d]+g.out.by[d] < rule.Most
	case rule.Policy == compute.AntiAffinity:
		return g.out.by[slot] < max(1, s.domainsLeft(e))
	case g.there.all > 0 && rule.Policy.Soft():
		return true
	case g.there.all > 0:
		return d == g.home() || d == "" && !e.avoids(g.home())
	}
	next := g.out.by[slot] == 0 && !s.now.Before(g.outAt.Add(s.opts.GroupNext)) // no host seems to take what is out
	return g.out.all == 0 || next || d != "" && g.out.all == g.out.by[d]
}

// avoids says whether a request is never to be built on the host that its group has.
func (e *entry) avoids(home string) bool {
	return slices.Contains(e.inst.Boot.Avoid, compute.HostID(home))
}

// domainsLeft is for how many more members there are hosts, as far as the queue manager says.
func (s *step) domainsLeft(e *entry) uint32 {
	advice, ok := s.view.Advice[e.inst.Queue]
	if !ok {
		return math.MaxUint32
	}
	hosts := uint64(advice.Hosts.Eligible) + uint64(advice.Hosts.Full) + uint64(advice.Hosts.Avoided)
	room := hosts * uint64(e.in.group.rule.Most)
	return uint32(min(room-min(room, uint64(e.in.group.there.all)), math.MaxUint32))
}

// hold keeps a member until its group lets it go.
func (s *State) hold(e *entry) {
	s.unpublish(e)
	g := e.in.group
	d := g.slot(e.inst)
	h := g.held[d]
	if h == nil {
		h = &heap[*entry]{less: waitsLonger, index: func(e *entry) *int { return &e.in.heldIndex }}
		g.held[d] = h
	}
	e.pub.state, e.in.heldAs = heldByGroup, counted(d)
	h.fix(e)
	s.watchAdvice(g)
}

func waitsLonger(a, b *entry) bool {
	if c := a.inst.QueuedAt.Compare(b.inst.QueuedAt); c != 0 {
		return c < 0
	}
	return a.inst.ID < b.inst.ID
}

func (s *State) unhold(e *entry) {
	if e.in == nil || e.in.heldAs == "" {
		return
	}
	d := domainIn(e.in.heldAs)
	e.in.heldAs = ""
	h := e.in.group.held[d]
	if h.remove(e); len(h.items) == 0 {
		delete(e.in.group.held, d)
	}
}

// watchAdvice has a group looked at again soon while it holds something that advice or time may let go.
func (s *State) watchAdvice(g *group) {
	if len(g.held) > 0 && g.rule != nil && g.rule.Over == "" && g.index == 0 {
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

// offerElsewhere offers the members of an affinity group anew where they belong somewhere else than before.
func (s *step) offerElsewhere(g *group) {
	if g.rule == nil || g.rule.Policy.Apart() || g.rule.Over != "" {
		g.place = ""
		return
	}
	was := g.place
	if g.place = g.home(); was == g.place || was == "" {
		return
	}
	for _, e := range sorted(g.members) {
		if e.in.outAs != "" && !pinned(e.inst) {
			s.emitEffects(e)
		}
	}
}

// groupsChanged takes the rules as the catalog has them now. Members that break a new one stay.
func (s *step) groupsChanged(keys []compute.GroupKey) {
	for _, key := range keys {
		g := s.groups[key]
		if g == nil {
			continue
		}
		if g.rule = nil; s.hasGroup(key) {
			rule := s.view.Groups[key]
			g.rule = &rule
		}
		s.recountGroup(g)
	}
}

// recountGroup counts all members by the domains of a new rule, and offers those anew that wait: what was published says
// what the rule was.
func (s *step) recountGroup(g *group) {
	var waiting []*entry
	for _, e := range sorted(g.members) {
		if e.in.outAs != "" || e.in.heldAs != "" {
			waiting = append(waiting, e)
		}
		s.unhold(e)
		s.setOut(e, false)
		g.recount(&g.there, &e.in.thereAs, "")
	}
	for _, e := range sorted(g.members) {
		s.regroup(e)
	}
	slices.SortFunc(waiting, func(a, b *entry) int {
		return cmp.Or(a.inst.QueuedAt.Compare(b.inst.QueuedAt), cmp.Compare(a.inst.ID, b.inst.ID))
	})
	for _, e := range waiting {
		s.emitEffects(e)
	}
}

func (s *step) hasGroup(key compute.GroupKey) bool { _, ok := s.view.Groups[key]; return ok }

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
	if g == nil || g.rule == nil || g.rule.Over != "" {
		return effect
	}
	publish, queued := effect.(Publish)
	if g.rule.Policy.Apart() {
		if queued {
			publish.Build.Group = g.forHosts(s.softUntil(e))
			return publish
		}
		return effect
	}
	if !queued || g.there.all == 0 || g.rule.Policy.Soft() && (s.softOver(e) || e.avoids(g.home())) {
		return effect
	}
	g.place = g.home()
	build := publish.Build
	build.WaitUntil = e.inst.Deadline
	if until := s.softUntil(e); !until.IsZero() {
		build.WaitUntil = until
	}
	return Tell{Host: compute.HostID(g.place), Command: compute.Command{
		Op: compute.CommandBuild, Project: e.inst.Project, Instance: e.inst.ID, Attempt: e.inst.Attempt,
		Build: &build, At: build.At, Trace: e.inst.Trace,
	}}
}

// forHosts is what hosts must know of a group that keeps its members apart.
func (g *group) forHosts(until time.Time) *compute.BuildGroup {
	b := &compute.BuildGroup{Name: g.key.Name, Most: g.rule.Most, Until: until}
	for d, n := range g.there.by {
		if n >= g.rule.Most {
			b.Full = append(b.Full, compute.HostID(d))
		}
	}
	slices.SortFunc(b.Full, func(x, y compute.HostID) int { return cmp.Compare(x, y) })
	b.Full = b.Full[:min(len(b.Full), compute.MaxFullHosts)]
	return b
}

// placeRefused hears that the host of an affinity group cannot take a member now. It is offered there again later, or,
// where the rule is a preference, to all.
func (s *step) placeRefused(e *entry, r compute.Report) {
	g := e.group()
	if g == nil || g.rule == nil || g.rule.Policy.Apart() || e.in.outAs == "" || e.inst.Attempt != r.Attempt {
		return
	}
	if g.rule.Policy.Soft() {
		e.in.gaveUp = true
		s.emitEffects(e)
	}
}

// mostDenied bounds how many denied claims of one attempt are remembered: each is repeated for a moment at most.
const mostDenied = 16

// noteDenied remembers that the rule has denied a claim.
func (x *inGroup) noteDenied(c compute.ClaimID) {
	if x.denied = append(x.denied, c); len(x.denied) > mostDenied {
		x.denied = slices.Delete(x.denied, 0, 1)
	}
}

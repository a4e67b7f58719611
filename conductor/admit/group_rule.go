// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

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
func (s *step) groupRefuses(e *entry, host compute.HostID) *compute.Reason {
	g := e.group()
	switch {
	case g == nil:
		return nil
	case g.rule == nil:
		return s.ruleUnread(g)
	}
	if why := s.skewRefuses(e); why != nil {
		return why
	}
	if g.rule.Policy.Soft() {
		return nil
	}
	d := string(host)
	if g.rule.Over != "" {
		d = g.domain(e)
	}
	here := g.there.by[d]
	switch {
	case g.rule.Policy.Apart() && here >= g.rule.Most:
		return g.breaks(g.membersIn(d))
	case g.rule.Policy.Together() && here < g.there.all:
		return g.breaks(fmt.Sprintf("%s, others have %d", g.membersIn(d), g.there.all-here))
	}
	return nil
}

// ruleUnread is why members of a group without a rule wait; nil: they do not. A group that has members is not removed,
// so its rule mostly was made while this conductor could not read the catalog.
func (s *step) ruleUnread(g *group) *compute.Reason {
	if g.rule != nil || !s.view.CatalogBehind {
		return nil
	}
	return &compute.Reason{
		Code:   compute.GroupRule,
		Detail: fmt.Sprintf("group %s: its rule is not known yet, as the catalog was not read since a takeover", g.key.Name),
	}
}

// membersIn says how many members a domain has, in words.
func (g *group) membersIn(domain string) string {
	if domain == "" {
		return fmt.Sprintf("members without a %s: %d", g.rule.Domain(), g.there.by[domain])
	}
	return fmt.Sprintf("%s %s has %d", g.rule.Domain(), domain, g.there.by[domain])
}

func (g *group) breaks(detail string) *compute.Reason {
	return &compute.Reason{
		Code: compute.GroupRule, Detail: fmt.Sprintf("group %s: %s; %s", g.key.Name, g.rule.Rule(), detail),
	}
}

// waitsForGroup is why a member waits that no host but its group's may have, as its end tells it; nil: that is not why.
func (s *step) waitsForGroup(e *entry) *compute.Reason {
	g := e.group()
	switch {
	case g == nil, g.rule == nil && e.in.heldAs == "":
		return nil
	case g.rule == nil:
		return s.ruleUnread(g)
	}
	if why := s.skewRefuses(e); why != nil {
		return why
	}
	switch {
	case e.in.heldAs != "" && !(g.hasPlace() && g.homeMayHave(e)):
		return g.breaks(fmt.Sprintf("members with a %s: %d; waiting for one before it: %d",
			g.rule.Domain(), g.there.all, g.out.all))
	case g.hasPlace():
		why := g.breaks("their host has not taken it")
		why.Host = compute.HostID(g.home())
		return why
	}
	return nil
}

// mayGo says whether a member may be published now. It is not counted among those that are.
func (s *step) mayGo(e *entry) bool {
	g := e.group()
	switch {
	case g == nil:
		return true
	case g.rule == nil:
		return s.ruleUnread(g) == nil
	}
	d, slot, rule := g.domain(e), g.slot(e), g.rule
	switch {
	case rule.Skew > 0 && !s.skewLets(e):
		return false
	case rule.Over != "" && d == "" && s.groupRefuses(e, "") != nil: // it was booted under another rule
		return false
	case rule.Policy == compute.SpreadOnly:
		return true
	case rule.Policy == compute.SoftAntiAffinity, rule.Policy == compute.SoftAffinity && s.softOver(e):
		return true
	case rule.Policy == compute.AntiAffinity && d != "":
		return g.there.by[d]+g.out.by[slot] < rule.Most
	case rule.Policy == compute.AntiAffinity:
		return g.out.by[slot] < max(1, s.domainsLeft(e))
	case g.there.all > 0 && rule.Over == "" && g.home() == string(s.losing):
		return false // until all that this host had is lost
	case g.there.all > 0 && rule.Policy.Soft():
		return true
	case g.there.all > 0:
		return g.homeMayHave(e) && (rule.Over != "" || s.inGroupWindow(e, slot))
	}
	next := g.out.by[slot] == 0 && !s.now.Before(g.outAt.Add(s.opts.GroupNext)) // no host seems to take what is out
	return g.out.all == 0 || next || d != "" && g.out.all == g.out.by[d]
}

// homeMayHave says whether the domain that an affinity group has may have one that waits. Members that came under
// another rule may be in several: then none may have one more.
func (g *group) homeMayHave(e *entry) bool {
	d, home := g.domain(e), g.home()
	return g.there.by[home] == g.there.all && (d == home || d == "" && !e.avoids(home))
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
	room, there := hosts*uint64(e.in.group.rule.Most), e.in.group.there.all
	if value := e.in.spread.value; value != "" { // hosts of one value are mostly others than those of another
		there = e.in.group.spread.there.by[string(value)]
	}
	return uint32(min(room-min(room, uint64(there)), math.MaxUint32))
}

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// verifySets counts each set again, by the records alone: all of it is granted or none, all of it is there while it
// waits, and a try of one that waits will end.
func (c *checked) verifySets() {
	c.t.Helper()
	members, claims := map[compute.InstanceID]map[*entry]bool{}, map[compute.InstanceID]int{}
	keeping := map[compute.HostID]map[*entry]bool{}
	for _, e := range c.instances {
		if e.kept() != nil {
			if !e.inst.Waits() || e.pub.state != claimed {
				c.t.Fatalf("%s keeps a claim, and is %s in state %d", e.inst.ID, e.inst.State, e.pub.state)
			}
			claims[e.inst.Boot.Set().ID]++
			if keeping[e.kept().Host] == nil {
				keeping[e.kept().Host] = map[*entry]bool{}
			}
			keeping[e.kept().Host][e] = true
		}
		if e.inst.Boot.Set().ID == "" || e.inst.State.Ended() {
			continue
		}
		if members[e.inst.Boot.Set().ID] == nil {
			members[e.inst.Boot.Set().ID] = map[*entry]bool{}
		}
		members[e.inst.Boot.Set().ID][e] = true
	}
	if !maps.EqualFunc(c.keeping, keeping, maps.Equal) {
		c.t.Fatalf("claims are said to be kept of %d hosts, and are of %d, or not the same", len(c.keeping), len(keeping))
	}
	if len(c.sets) != len(members) {
		c.t.Fatalf("%d sets are known, there are %d", len(c.sets), len(members))
	}
	for id, x := range c.sets {
		if !maps.Equal(x.members, members[id]) || x.claimed != claims[id] || x.ending {
			c.t.Fatalf("set %s: %d members and %d claims are known, there are %d and %d",
				id, len(x.members), x.claimed, len(members[id]), claims[id])
		}
		waiting := 0
		for e := range x.members {
			if !e.inst.Boot.Set().Granted {
				waiting++
			}
		}
		switch {
		case waiting == 0:
		case waiting != int(x.size) || x.claimed == waiting:
			c.t.Fatalf("set %s: %d of %d wait, %d are claimed", id, waiting, x.size, x.claimed)
		case x.index == 0:
			c.t.Fatalf("set %s waits for ever", id)
		}
	}
}

// verifyWholes finds a build of several that is not all of one set as it is now, or that its queue does not cover,
// and one of a set that waits for a publication which there is not.
func (c *checked) verifyWholes(out Output, view View) {
	c.t.Helper()
	for _, effect := range out.Effects {
		p, ok := effect.(Publish)
		if !ok || len(p.Build.Parts) == 0 {
			continue
		}
		sum := compute.Resources{}
		for _, part := range p.Build.Parts {
			e := c.instances[part.Instance]
			if e == nil || e.inst.Whole() != p.Queue || e.inst.Attempt != part.Attempt || !e.inst.PublishAt.IsZero() ||
				e.kept() != nil {
				c.t.Fatalf("%s attempt %d is offered whole in %s, and is %+v", part.Instance, part.Attempt, p.Queue, e)
			}
			sum = sum.Plus(part.Resources)
		}
		lead := c.instances[p.Build.Instance].inst
		if x := c.setOf(lead); !lead.Leads() || len(p.Build.Parts) != int(x.size) || p.Build.Attempt != lead.Attempt {
			c.t.Fatalf("%d parts are offered as set %s, attempt %d", len(p.Build.Parts), p.Build.Instance, p.Build.Attempt)
		}
		if !sum.Equal(p.Build.Resources) || !sum.FitsIn(view.Queues[p.Queue].Resources) || p.Build.Queue != p.Queue {
			c.t.Fatalf("%v is offered as %v in %s, for %v", sum, p.Build.Resources, p.Queue, view.Queues[p.Queue].Resources)
		}
	}
	for _, x := range c.sets {
		for e := range x.members {
			if e.pub == nil || e.pub.state != carried || x.claimed > 0 {
				continue
			}
			due := true
			for other := range x.members {
				due = due && other.inst.PublishAt.IsZero()
			}
			lead := c.instances[x.id]
			if due && !slices.Contains([]progress{pending, known, unknown, passed}, lead.pub.state) {
				c.t.Fatalf("%s is carried by %s, which is in state %d", e.inst.ID, lead.inst.ID, lead.pub.state)
			}
		}
	}
}

// TestSetsThatNeedTheSameRoom: ten sets that each need more than half of all room, over partitions that know nothing of
// each other: one after the other gets it.
func TestSetsThatNeedTheSameRoom(t *testing.T) {
	const sets, each, room = 10, 6, 10
	h := &contest{t: t, now: epoch, room: room, each: each}
	for i := range sets {
		h.parts = append(h.parts, &contestant{state: fresh(t), set: i})
	}
	h.bootAll(each)
	for granted := range sets {
		for rounds := 0; h.granted() <= granted; rounds++ {
			if rounds > 600 {
				t.Fatalf("%d sets of %d were granted, and no other after %s", h.granted(), sets, h.now.Sub(epoch))
			}
			h.second()
		}
		h.deleteGranted()
	}
	t.Logf("all of %d sets were granted after %s, with %d claims given back", sets, h.now.Sub(epoch), h.denied)
}

// contest is one room for ten partitions: each machine of theirs takes one place, and hosts take whatever waits, of all
// partitions in turn, as long as there is a place.
type contest struct {
	t      *testing.T
	now    time.Time
	room   int
	each   int
	parts  []*contestant
	turn   int
	claims int
	denied int
}

// contestant is a partition with one set.
type contestant struct {
	state *checked
	set   int
	queue []compute.Build
	has   map[compute.InstanceID]compute.Report // claims that hold a place
	runs  map[compute.InstanceID]bool
}

func (h *contest) bootAll(each int) {
	for _, p := range h.parts {
		p.has, p.runs = map[compute.InstanceID]compute.Report{}, map[compute.InstanceID]bool{}
		r := compute.Request{Op: compute.OpBootSet, Project: "p", At: h.now}
		for i := range each {
			r.Set = append(r.Set, compute.SetBoot{
				Instance: long(fmt.Sprintf("%d%02d", p.set+1, i)), Boot: compute.Boot{Flavor: "m1.small", Deadline: 24 * time.Hour},
			})
		}
		r.Instance = r.Set[0].Instance
		h.hear(p, Requested{Request: r})
	}
}

func (h *contest) hear(p *contestant, in Input) {
	out := p.state.step(in, catalog(), h.now)
	for _, effect := range out.Effects {
		switch effect := effect.(type) {
		case Publish:
			p.queue = append(p.queue, effect.Build)
		case Tell:
			switch effect.Command.Op {
			case compute.CommandGrant:
				p.runs[effect.Command.Instance] = true
			case compute.CommandDeny:
				h.denied++
				h.room++
				delete(p.has, effect.Command.Instance)
			}
		}
	}
}

// second lets a second pass: hosts take one piece of work of each partition in turn, and repeat their claims.
func (h *contest) second() {
	h.now = h.now.Add(time.Second)
	for range h.parts {
		p := h.parts[h.turn%len(h.parts)]
		h.turn++
		h.hear(p, Tick{Until: h.now})
		for _, r := range p.has {
			if len(p.runs) == 0 && h.now.Second()%10 == 0 {
				h.hear(p, Reported{Report: r})
			}
		}
		for len(p.queue) > 0 && h.now.After(p.queue[0].Deadline) {
			p.queue = p.queue[1:]
		}
		if h.room == 0 || len(p.queue) == 0 {
			continue
		}
		b := p.queue[0]
		p.queue = p.queue[1:]
		h.room--
		h.claims++
		r := compute.Report{
			Op: compute.ReportClaim, Host: "h1", Project: "p", Instance: b.Instance, Attempt: b.Attempt,
			Claim: compute.ClaimID(fmt.Sprintf("%s-%d", b.Instance, b.Attempt)),
		}
		p.has[b.Instance] = r
		h.hear(p, Reported{Report: r})
	}
}

func (h *contest) granted() (n int) {
	for _, p := range h.parts {
		if len(p.runs) == h.each {
			n++
		}
	}
	return n
}

// deleteGranted gives back the room of the sets that run.
func (h *contest) deleteGranted() {
	for _, p := range h.parts {
		if len(p.runs) > 0 {
			h.room += len(p.has)
			clear(p.has)
		}
	}
}

// TestABeaconLooksAtNoClaimsOfOthers: what it costs does not grow with the claims that are kept of other hosts. Those
// of its own are lost as it has another journal, and those of others are not.
func TestABeaconLooksAtNoClaimsOfOthers(t *testing.T) {
	const sets, each = 20, 10
	c, view, out := fresh(t), catalog(), Output{}
	for s := range sets {
		r := compute.Request{Op: compute.OpBootSet, Project: "p", At: epoch}
		for i := range each {
			r.Set = append(r.Set, compute.SetBoot{
				Instance: long(fmt.Sprintf("%d%02d", s+1, i)), Boot: compute.Boot{Flavor: "m1.small", Deadline: time.Hour},
			})
		}
		r.Instance = r.Set[0].Instance
		c.step(Requested{Request: r}, view, epoch)
		for i, boot := range r.Set[1:] {
			out = c.step(Reported{Report: compute.Report{
				Op: compute.ReportClaim, Host: compute.HostID(fmt.Sprintf("h%d", i)), Journal: "j1", Project: "p",
				Instance: boot.Instance, Attempt: 1, Claim: compute.ClaimID("c-" + boot.Instance),
			}}, view, epoch)
		}
	}
	if len(out.Effects) > 0 {
		t.Fatalf("a claim is not kept: %+v", out.Effects)
	}
	heard := HostHeard{Host: "other", Voice: compute.Voice{Journal: "j2"}}
	if n := testing.AllocsPerRun(10, func() { c.Step(heard, view, epoch) }); n > sets {
		t.Errorf("a beacon of a host that has claimed nothing takes %.0f allocations", n)
	}
	heard.Host = "h1"
	c.step(heard, view, epoch)
	kept := map[compute.HostID]int{}
	for _, e := range c.instances {
		if k := e.kept(); k != nil {
			kept[k.Host]++
		}
	}
	if len(kept) != each-2 || kept["h1"] != 0 || kept["h2"] != sets {
		t.Errorf("claims are kept of %v", kept)
	}
}

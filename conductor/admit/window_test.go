// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// place is one partition, and one host that an affinity group has: it reads what it is offered, and does nothing by
// itself.
type place struct {
	t       *testing.T
	state   *checked
	view    View
	now     time.Time
	lives   bool            // it has beacons
	lost    bool            // what it is told does not land
	offered []compute.Build // to it alone
}

func newPlace(t *testing.T) *place {
	p := &place{t: t, state: fresh(t), view: catalog(), now: epoch, lives: true}
	p.view.Groups[compute.GroupKey{Project: "p", Name: "near"}] = compute.Group{
		Project: "p", Name: "near", Policy: compute.Affinity,
	}
	p.hear(HostsRead{})
	p.boot(1, 1, func(*compute.Boot) {})
	p.claim(p.instance(1))
	p.say(compute.ReportStarted, p.instance(1))
	return p
}

func (p *place) instance(n int) compute.Build {
	inst := p.state.Instance(long(fmt.Sprint(n)))
	return compute.Build{Instance: inst.ID, Attempt: inst.Attempt}
}

func (p *place) hear(in Input) { p.carry(p.state.Step(in, p.view, p.now)) }

func (p *place) carry(out Output) {
	p.state.log = append(p.state.log, out.Changed...)
	for _, inst := range out.Changed {
		p.state.last[inst.ID] = inst
	}
	for _, effect := range out.Effects {
		told, _ := effect.(Tell)
		b := told.Command.Build
		if b == nil {
			continue
		}
		p.offered = append(p.offered, *b)
		in := Published{Instance: b.Instance, Attempt: b.Attempt, At: b.At, Told: true}
		if p.lost {
			in.Outcome = Undelivered
		}
		p.hear(in)
	}
}

// boot asks for members of the group, each a moment later than the one before.
func (p *place) boot(from, n int, edit func(*compute.Boot)) {
	for i := range n {
		p.now = p.now.Add(time.Microsecond)
		b := compute.Boot{Flavor: "m1.small", Rules: compute.InGroup("near"), Deadline: 7 * 24 * time.Hour}
		edit(&b)
		p.hear(Requested{Request: compute.Request{
			Op: compute.OpBoot, Project: "p", Instance: long(fmt.Sprint(from + i)), Boot: &b, At: p.now,
		}})
	}
}

func (p *place) say(op compute.ReportOp, b compute.Build) {
	p.hear(Reported{Report: compute.Report{
		Op: op, Host: "h1", Project: "p", Instance: b.Instance, Attempt: b.Attempt, Claim: "c1",
	}})
}

func (p *place) claim(b compute.Build) { p.say(compute.ReportClaim, b) }

// pass has time pass, and answers how often the host was offered work meanwhile.
func (p *place) pass(d time.Duration) int {
	before := len(p.offered)
	for end := p.now.Add(d); p.now.Before(end); {
		next := p.now.Add(15 * time.Second)
		if due := p.state.NextDue(); !due.IsZero() && due.Before(next) {
			next = latest(p.now, due)
		}
		if p.now = next; p.lives && p.now.Sub(p.state.hosts["h1"].heard) >= 15*time.Second {
			p.hear(HostHeard{Host: "h1"})
		}
		p.hear(Tick{Until: p.now})
	}
	p.state.verifyGroups(p.view, p.now)
	return len(p.offered) - before
}

func (p *place) waiting() (n int) {
	for _, e := range p.state.instances {
		if e.inst.State == compute.StateQueued {
			n++
		}
	}
	return n
}

// takeover has another conductor load what was written.
func (p *place) takeover() {
	p.state, p.offered = loaded(p.t, p.state.log, p.view, p.now), nil
	p.carry(p.state.allLoaded(p.view, p.now))
	p.hear(HostsRead{})
}

// takeAll has the host claim all that it is offered, until nothing more comes.
func (p *place) takeAll() {
	for taken := 0; taken < len(p.offered); taken++ {
		p.claim(p.offered[taken])
	}
}

// TestASilentHostIsOfferedNothingTwice: what has landed in its stream is there when it comes back, and is offered again
// then; what has not landed is tried again.
func TestASilentHostIsOfferedNothingTwice(t *testing.T) {
	p := newPlace(t)
	pinned := func(b *compute.Boot) { b.Host, b.Rules = "h1", nil }
	p.lives = false
	p.boot(1001, 5000, func(*compute.Boot) {})
	p.boot(7001, 100, pinned)
	p.lost = true
	p.boot(8001, 1, pinned)
	p.lost = false
	p.pass(time.Minute + time.Second) // until it is silent
	if n := p.pass(6 * time.Hour); n != 0 {
		t.Errorf("a silent host was offered work %d times", n)
	}
	p.hear(HostHeard{Host: "h1"})
	again := slices.DeleteFunc(slices.Clone(p.offered), func(b compute.Build) bool { return b.At.Before(p.now) })
	if want := p.state.opts.GroupWindow + 101; len(again) != want {
		t.Errorf("once it is heard it is offered %d, want %d", len(again), want)
	}
	p.takeAll()
	if n := p.waiting(); n != 0 {
		t.Errorf("it takes all that it is offered, and %d wait", n)
	}
}

// TestWhatHasNotLandedIsOfferedASilentHost until it has: that there is no such host is found by that.
func TestWhatHasNotLandedIsOfferedASilentHost(t *testing.T) {
	p := newPlace(t)
	p.lives, p.lost = false, true
	p.boot(2, 1, func(b *compute.Boot) { b.Host, b.Rules = "h1", nil })
	p.pass(2 * time.Minute)
	if n := p.pass(time.Hour); n < 11 {
		t.Errorf("it was offered %d times", n)
	}
	p.lost = false
	if p.pass(5 * time.Minute); p.pass(time.Hour) > 0 {
		t.Error("it has landed, and is offered again")
	}
}

// TestAFullHostIsOfferedAFew again and again, those that wait longest; all of them come to it as soon as it has room.
func TestAFullHostIsOfferedAFew(t *testing.T) {
	p := newPlace(t)
	p.boot(1001, 5000, func(*compute.Boot) {})
	few := p.state.opts.GroupWindow
	if n := p.pass(4 * time.Hour); n > few*(12*4+5) {
		t.Errorf("a host without room was offered work %d times", n)
	}
	for _, b := range p.offered {
		if b.Instance > long(fmt.Sprint(1000+few)) {
			t.Fatalf("%s was offered before those that wait longer", b.Instance)
		}
	}
	p.takeAll()
	if n := p.waiting(); n != 0 {
		t.Errorf("it takes all that it is offered, and %d wait", n)
	}
}

// TestWhatAHostRefusesHoldsUpNoMember: it gives way to what is held behind it, and comes again.
func TestWhatAHostRefusesHoldsUpNoMember(t *testing.T) {
	p := newPlace(t)
	const refused = 40
	p.boot(1001, refused, func(*compute.Boot) {})
	p.pass(time.Hour)
	p.boot(2001, 100, func(*compute.Boot) {})
	heard, times := 0, map[compute.InstanceID]int{}
	for range 120 {
		for ; heard < len(p.offered); heard++ {
			b := p.offered[heard]
			if b.Instance > long("2000") {
				p.claim(b)
				continue
			}
			times[b.Instance]++
			p.say(compute.ReportPinned, b)
		}
		p.pass(5 * time.Second)
	}
	if n := p.waiting(); n != refused {
		t.Errorf("after ten minutes %d wait, of which %d are refused", n, refused)
	}
	heard = len(p.offered)
	for range 60 {
		p.pass(time.Minute)
		for ; heard < len(p.offered); heard++ {
			times[p.offered[heard].Instance]++
			p.say(compute.ReportPinned, p.offered[heard])
		}
	}
	all := 0
	for n := range refused {
		id := long(fmt.Sprint(1001 + n))
		if all += times[id]; times[id] < 3 {
			t.Errorf("%s was offered %d times", id, times[id])
		}
	}
	if most := p.state.opts.GroupWindow * (12*2 + 10); all > most {
		t.Errorf("what is refused was offered %d times, want %d at most", all, most)
	}
}

// TestWhatWasNeverRefusedIsOfferedAtOnce, though its window is full of what the host refuses; and when that is offered
// again, it takes no place from what waits.
func TestWhatWasNeverRefusedIsOfferedAtOnce(t *testing.T) {
	p := newPlace(t)
	few := p.state.opts.GroupWindow
	refuse := func() {
		for _, b := range p.offered {
			if b.Instance < long("2000") {
				p.say(compute.ReportPinned, b)
			}
		}
		p.offered = nil
	}
	p.boot(1001, few, func(*compute.Boot) {})
	refuse()
	p.boot(2001, few, func(*compute.Boot) {})
	if n := len(p.offered); n != few {
		t.Fatalf("beside what is refused %d of %d were offered", n, few)
	}
	p.boot(3001, 1, func(*compute.Boot) {})
	if len(p.offered) != few {
		t.Error("more was offered than the window has")
	}
	p.pass(time.Hour)
	refuse()
	for n := range few {
		if inst := p.instance(2001 + n); p.state.Instance(inst.Instance).State == compute.StateQueued {
			p.claim(inst)
		}
	}
	if !slices.ContainsFunc(p.offered, func(b compute.Build) bool { return b.Instance == long("3001") }) {
		t.Error("what waited behind them was not offered once they were claimed")
	}
}

// TestTheNextOwnerOffersASilentHostLittle: for a minute it does not know that the host is silent.
func TestTheNextOwnerOffersASilentHostLittle(t *testing.T) {
	p := newPlace(t)
	p.lives = false
	p.boot(1001, 100, func(*compute.Boot) {})
	p.takeover()
	p.pass(2 * time.Minute)
	if n, most := len(p.offered), 2*p.state.opts.GroupWindow; n == 0 || n > most {
		t.Errorf("it is offered %d, want %d at most", n, most)
	}
	if n := p.pass(6 * time.Hour); n != 0 {
		t.Errorf("a silent host was offered work %d times", n)
	}
}

// TestTheNextOwnerOffersTheFirst of what waits for the host of its group, and the rest as that is claimed.
func TestTheNextOwnerOffersTheFirst(t *testing.T) {
	p := newPlace(t)
	p.boot(1001, 100, func(*compute.Boot) {})
	p.takeover()
	ids := make([]compute.InstanceID, 0, 16)
	for _, b := range p.offered {
		ids = append(ids, b.Instance)
	}
	if slices.Sort(ids); len(ids) != p.state.opts.GroupWindow || ids[0] != long("1001") || ids[15] != long("1016") {
		t.Errorf("it offers %v", ids)
	}
	p.claim(compute.Build{Instance: long("1050"), Attempt: 1}) // the owner before had offered it
	p.takeAll()
	if n := p.waiting(); n != 0 {
		t.Errorf("the host takes all that it is offered, and %d wait", n)
	}
}

// TestWhatIsHeldForAHostEnds by its deadline, and says that its host has not taken it.
func TestWhatIsHeldForAHostEnds(t *testing.T) {
	p := newPlace(t)
	p.boot(1001, 16, func(*compute.Boot) {})
	p.boot(2001, 4, func(b *compute.Boot) { b.Deadline = time.Hour })
	p.pass(time.Hour + time.Second)
	want := compute.Reason{
		Code: compute.DeadlineExceeded, Host: "h1",
		Detail: "unclaimed for 1h0m0s: GroupRule (host h1, group near: all on one host; their host has not taken it)",
	}
	for n := range 4 {
		if inst := p.state.Instance(long(fmt.Sprint(2001 + n))); inst.Reason == nil || *inst.Reason != want {
			t.Fatalf("%s is %s: %v", inst.ID, inst.State, inst.Reason)
		}
	}
}

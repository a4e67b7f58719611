// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/network"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// sleep says whether there is still something to sleep for.
func (w *play) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ours.Dead:
		return false
	}
}

// openTime is how long it may take until all there is to begin with is there.
const openTime = 2 * time.Minute

// open waits until the first API node answers, and makes the first flavors.
func (w *play) open() {
	for _, a := range w.World.Axes {
		w.clients.do(schedule.Load{Op: schedule.LoadAddAxis, Axis: &a})
	}
	for _, f := range w.World.Flavors {
		w.clients.do(schedule.Load{Op: schedule.LoadAddFlavor, Flavor: &f})
	}
	for _, g := range w.World.Groups {
		if g.Name != schedule.Late {
			w.clients.do(schedule.Load{Op: schedule.LoadGroup, Project: g.Project, Group: &g})
		}
	}
	for end := time.Now().Add(openTime); time.Now().Before(end) && !w.ready(); {
		w.sleep(100 * time.Millisecond)
	}
	w.rec.Start = time.Now()
}

// ready says whether all processes run, all queues are open and all hosts are known.
func (w *play) ready() bool {
	ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
	defer cancel()
	c := w.clients.as(0, "default")
	queues, err := c.Queues(ctx, "")
	if err != nil || len(queues) < len(w.World.Queues(w.World.Flavors)) {
		return false
	}
	for _, q := range queues {
		if q.State != compute.QueueOpen.String() {
			return false
		}
	}
	hosts, err := c.Hosts(ctx)
	return err == nil && len(hosts) == len(w.World.Hosts)
}

// schedule has everything asked and everything go wrong at its time. It returns
// when all of that is over.
func (w *play) schedule() {
	w.asking.Add(1)
	w.after(w.World.LateAt.Duration(), func() {
		for _, g := range w.World.Groups {
			if g.Name == schedule.Late {
				w.clients.do(schedule.Load{Op: schedule.LoadGroup, Project: g.Project, Group: &g})
				w.rec.CountFelt(schedule.LateGroups)
			}
		}
		close(w.late)
		w.asking.Add(-1)
	})
	for _, l := range w.Load {
		w.asking.Add(1)
		w.after(l.At.Duration(), func() { w.clients.do(l); w.asking.Add(-1) })
	}
	for _, f := range w.Faults {
		w.after(f.At.Duration(), func() { w.fault(f) })
	}
	for i := range w.World.Nodes {
		w.after(0, func() { w.watch(i) })
	}
	w.sleep(w.Begun().Duration() + time.Second)
	for end := w.rec.Start.Add(w.Quiet().Duration()); time.Now().Before(end) && w.troubled(); {
		w.sleep(250 * time.Millisecond)
	}
}

// fault has something go wrong, and ends it.
func (w *play) fault(f schedule.Fault) {
	if f.When != "" && !w.aim(&f) {
		return
	}
	w.rec.AddNote(f.Who, "fault "+f.String())
	p := w.procs[f.Who]
	switch f.Kind {
	case schedule.FaultKill:
		w.killAt(p, f)
	case schedule.FaultUpgrade:
		w.rec.CountFault(f)
		p.upgrade()
		p.down(p.current(), "", f.By.Duration(), "is started, of the next version")
	case schedule.FaultBroker:
		w.rec.CountFault(f)
		w.broker.stop()
		w.lasts(f.For, nil)
		w.after(f.For.Duration(), func() { w.must(w.startBroker()); w.rec.AddNote("broker", "is back") })
	case schedule.FaultCode:
		stop, spent, came := w.broker.answer(f)
		w.laid.lay(f, came)
		w.lasts(f.For, spent)
		w.after(f.For.Duration(), stop)
	case schedule.FaultLeaderless:
		w.leaderless(f)
	case schedule.FaultDriver:
		x := w.troubles.begin(f)
		w.laid.lay(f, func() bool { return w.troubles.came(x) })
		w.lasts(f.For+f.By, func() bool { return w.troubles.spent(x) && f.By == 0 && !f.Hang })
	case schedule.FaultPower:
		w.power(p, f)
	case schedule.FaultWipe:
		w.wipe(p, f)
	case schedule.FaultRogue:
		w.rogue(f)
	case schedule.FaultLie:
		w.lie(f)
	case schedule.FaultForge:
		w.forge(f)
	case schedule.FaultRing:
		w.ring(f)
	case schedule.FaultRename:
		w.rename(p, f)
	case schedule.FaultWord:
		w.word(f)
	case schedule.FaultClone:
		w.clone(p, f)
	case schedule.FaultLink,
		schedule.FaultLeaders,
		schedule.FaultCoordinators,
		schedule.FaultNode,
		schedule.FaultDeposed,
		schedule.FaultParked,
		schedule.FaultQuorum,
		schedule.FaultApart:
		w.ofBrokers(p, f)
	default:
		w.disturb(p, f)
	}
}

// aim waits until an instance is in the state that a fault is about. It says
// whether that came about.
func (w *play) aim(f *schedule.Fault) bool {
	var over atomic.Bool
	w.lasts(schedule.SecondsOf(schedule.StateTime), over.Load)
	defer over.Store(true)
	id := w.clients.target(schedule.Load{Name: f.Name, When: f.When})
	inst, ok := w.rec.Instances()[id]
	if f.Who == "" {
		f.Who = string(inst.Host)
	}
	return ok && f.Who != ""
}

// disturb is what happens to the connections of a process.
func (w *play) disturb(p *process, f schedule.Fault) {
	l := p.current()
	if l == nil {
		return
	}
	if f.Point != "" && f.Kind != schedule.FaultLose {
		at := f
		at.For = schedule.Window
		w.trap(l.Link, at, f.Point, func(*network.Conn) {
			f.Point = ""
			w.rec.AddNote(p.name, "fault "+f.String())
			w.disturb(p, f)
		})
		return
	}
	var end func()
	switch f.Kind {
	case schedule.FaultPause:
		l.Pause()
		end = l.Resume
	case schedule.FaultDeaf:
		l.In.Close()
		end = l.In.Reopen
	case schedule.FaultMute:
		l.Out.Close()
		end = l.Out.Reopen
	case schedule.FaultOff:
		l.Refuse()
		end = l.Allow
	case schedule.FaultSlow:
		l.Slower(f.By.Duration())
		end = func() { l.Slower(-f.By.Duration()) }
	case schedule.FaultLose:
		w.trap(l.Link, f, "send:"+f.Key, func(c *network.Conn) {
			w.rec.CountFault(f)
			w.rec.AddNote(p.name, "loses the answer to "+f.Key)
			c.Lost.Store(true)
		})
		return
	default:
		w.rec.CountFault(f)
		l.Cut()
		return
	}
	w.rec.CountFault(f)
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), end)
}

// killAt kills a process at once, or when it comes to a point.
func (w *play) killAt(p *process, f schedule.Fault) {
	l := p.current()
	if l == nil {
		return
	}
	kill := func(*network.Conn) {
		if p.current() == l {
			w.rec.CountFault(f)
			w.rec.AddNote(p.name, "is killed "+f.Point)
			p.down(l, f.Disk, f.By.Duration(), "is started")
		}
	}
	if f.Point == "" {
		kill(nil)
		return
	}
	w.trap(l.Link, f, f.Point, kill)
}

// trap waits for a process to come to a point for as long as the fault says.
func (w *play) trap(l *network.Link, f schedule.Fault, point string, spring func(*network.Conn)) {
	t := &network.Trap{Point: point, Nth: max(f.Nth, 1), Spring: spring}
	l.Trap(t)
	w.lasts(f.For, t.Sprung.Load)
	w.after(f.For.Duration(), func() { l.Disarm(t) })
}

// power takes a host's power away for a while. An operator may declare it dead
// meanwhile, and knows that it is: so its machines may be built elsewhere.
func (w *play) power(p *process, f schedule.Fault) {
	w.rec.CountFault(f)
	p.down(p.current(), f.Disk, f.For.Duration(), "has power")
	w.must(w.hosts[p.host.ID].Crash())
	w.after(time.Millisecond, func() { w.must(w.hosts[p.host.ID].Crash()) }) // what was launched in this very moment
	if f.Dead == "" {
		return
	}
	p.hold()
	w.after(f.For.Duration()/2, func() {
		if !w.declareDead(f) {
			w.sleep(time.Minute) // whatever of it is still under way comes to a dead host
		}
		p.release("may come back")
	})
}

// declareDead does what an operator does about a host without power: it says that the host is
// dead, and keeps the power off until that was heard.
func (w *play) declareDead(f schedule.Fault) bool {
	h, word := compute.HostID(f.Who), client.DeadHost{Fenced: true, Force: true, Reason: "simulated"}
	var err error
	for end := time.Now().Add(keepTime); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
		c, began := w.clients.as(0, "default"), time.Now()
		if f.Dead == "fence" {
			_, err = c.Evacuate(ctx, h, word)
		} else {
			_, err = c.Forget(ctx, h, word)
		}
		cancel()
		if err == nil {
			w.rec.AddNote("operator", fmt.Sprintf("has said that %s is dead (%s)", h, f.Dead))
			w.rec.AddBuried(judge.Buried{Host: h, Began: began, Answered: time.Now()})
			return true
		}
		if !w.sleep(2 * time.Second) {
			return false
		}
	}
	w.rec.AddNote("operator", fmt.Sprintf("cannot say that %s is dead: %v", h, err))
	return false
}

// wipe sets a host up anew: nothing of before is on it, but for an old journal perhaps.
func (w *play) wipe(p *process, f schedule.Fault) {
	var old []byte
	if f.Disk == schedule.Claimed {
		i, _ := w.rec.InstanceNamed(f.Name)
		if old = p.beforeGrant(i.ID); old == nil {
			f.Disk = ""
		}
	}
	w.rec.CountFault(f)
	p.down(p.current(), "lost", f.For.Duration(), "is set up anew")
	p.mu.Lock()
	p.keep = old // also if it was down already
	p.mu.Unlock()
	w.empty(p.host.ID)
	w.after(time.Millisecond, func() { w.empty(p.host.ID) })
}

// empty takes all machines from a host.
func (w *play) empty(h compute.HostID) {
	host := w.hosts[h]
	d := fake.NewDriver(host, fake.Options{})
	for _, m := range host.Machines() {
		w.must(d.Destroy(context.Background(), m.Instance))
	}
}

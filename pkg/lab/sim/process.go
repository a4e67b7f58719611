// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/network"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/service"
)

// process is something that runs, dies and is started again.
type process struct {
	play  *play
	name  string
	build func(*life) service.Part
	host  *schedule.Host // agents only

	mu    sync.Mutex
	now   *life // nil: it is down
	held  int   // so many have reasons that it stays down
	lives []*life
	keep  []byte // agents: the journal for the next life; nil: a new one
	as    identity
	clone *fake.Host // agents that have the name of another: their machines
	full  bool       // agents: their machines have no room
	older bool       // agents: of the version before, until they are upgraded
}

// life is one run of a process, from its start until nothing of it is left.
type life struct {
	*network.Link
	cancel context.CancelFunc
	done   chan struct{}
	dir    string // agents

	mu           sync.Mutex
	disk, before []byte   // the journal as of its last write, and of the one before
	all          [][]byte // as of every write, where one may be restored
}

// start begins a life, unless there is one.
func (p *process) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil || p.held > 0 || p.play.over {
		return
	}
	l := &life{Link: p.play.link(p.name, len(p.lives)), done: make(chan struct{})}
	if p.host != nil {
		p.furnish(l)
		if !p.older {
			p.play.rec.AddUpgraded(p.host.ID)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	p.now, p.lives = l, append(p.lives, l)
	part, began := p.build(l), time.Now()
	var host compute.HostID
	if p.host != nil {
		host = p.called()
	}
	go func() {
		err := part.Run(ctx)
		if host != "" {
			p.play.rec.AddAgent(judge.Agent{
				Host: host, Process: p.name, Began: began, Ended: time.Now(), GaveWay: ctx.Err() == nil && gaveWay(err),
			})
		}
		close(l.done)
		p.ended(l, ctx.Err() == nil, err)
	}()
}

// gaveWay says whether an agent has ended since another one of its name began earlier.
func gaveWay(err error) bool {
	e := (*compute.Error)(nil)
	return errors.As(err, &e) && e.Op == "agent" && e.Field == "host"
}

// restartTime is how long a service manager waits after a process ended.
const restartTime = 2 * time.Second

// ended starts a process again that ended by itself.
func (p *process) ended(l *life, byItself bool, err error) {
	if !byItself {
		return
	}
	p.play.rec.AddNote(p.name, fmt.Sprintf("ends by itself: %v", err))
	if !p.kill(l, "") {
		return
	}
	p.play.after(restartTime, p.start)
}

// kill ends a life at once: nothing of it gets out from now on. It says whether
// that life was the current one. It never blocks, so any goroutine of the
// process may call it.
func (p *process) kill(l *life, disk string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l == nil || p.now != l {
		return false
	}
	l.Link.Kill()
	l.cancel()
	p.now = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	switch disk {
	case "lost":
		p.keep = nil
	case "old":
		p.keep = l.before
	default:
		p.keep = l.disk
	}
	return true
}

// down ends a process for a while: others may have reasons of their own that it
// stays down for longer.
func (p *process) down(l *life, disk string, d time.Duration, back string) {
	p.kill(l, disk)
	p.hold()
	p.play.lasts(schedule.SecondsOf(d), nil)
	p.play.after(d, func() { p.release(back) })
}

func (p *process) upgrade() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.older = false
}

// reads is up to which schema a life reads that begins now.
func (p *process) reads() compute.Schema {
	if p.older {
		return schedule.BeforeReservations
	}
	return p.play.World.Reads(p.name)
}

func (p *process) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
}

func (p *process) release(back string) {
	p.mu.Lock()
	p.held--
	p.mu.Unlock()
	p.play.rec.AddNote(p.name, back)
	p.start()
}

func (p *process) current() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// furnish gives a life of an agent its disk: a copy of what the one before left.
func (p *process) furnish(l *life) {
	l.Fetched = func() { p.play.rec.AddFetch(p.host.ID) }
	l.dir = filepath.Join(p.play.dir, fmt.Sprintf("%s.%d", p.name, len(p.lives)))
	file := p.journal(l)
	p.play.must(os.MkdirAll(l.dir, 0o700))
	if p.keep != nil {
		p.play.must(os.WriteFile(file, p.keep, 0o600))
	} else {
		p.play.must(makeJournal(file))
	}
	l.saved(file)
	l.saved(file)
	p.copied(l)
	p.mark(l)
}

func (p *process) journal(l *life) string { return filepath.Join(l.dir, string(p.host.ID)+".journal") }

func makeJournal(file string) error {
	j, err := journal.Open(file, journal.Options{NoSync: true})
	if err != nil {
		return err
	}
	return j.Close()
}

// saved keeps what is on the disk now.
func (l *life) saved(file string) {
	b, err := os.ReadFile(file)
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.Dead:
		return // too late: what it writes now was never written
	default:
	}
	if err == nil {
		l.before, l.disk = l.disk, b
	}
}

// written is called after each change of the journal, before the agent goes on.
func (p *process) written(l *life) {
	l.saved(p.journal(l))
	if p.play.Has("wipe " + schedule.Claimed) {
		l.mu.Lock()
		l.all = append(l.all, l.disk)
		l.mu.Unlock()
	}
	l.At("journal", nil)
	_ = l.Pass() // a dead one may go on: it reaches nobody
}

// agent makes the part of a host's agent.
func (p *process) agent(l *life) service.Part {
	host, name := p.machines()
	inner := fake.NewDriver(host, fake.Options{
		PrepareTime: p.host.Prepare.Duration(), LaunchTime: p.host.Launch.Duration(),
		DestroyTime: p.host.Destroy.Duration(), Placeholders: true,
		Fault: p.play.troubles.fault,
		Deaf:  func(compute.InstanceID) bool { return p.play.World.Deaf },
	})
	var reached hypervisor.Driver = &driver{
		Driver: inner, host: name, called: p.called(), refused: p.as.refused(), link: l.Link, rec: p.play.rec,
	}
	if p.as.name != "" || p.full {
		reached = roomless{reached}
	}
	site := p.play.site(l, p.name)
	site.Reads = p.reads()
	part, _ := p.play.product.Agent(site, lab.Host{
		ID: p.called(), State: l.dir, Home: home.Place{Dir: l.dir},
		Driver:  reached,
		Key:     p.play.keys.of(p.called()),
		Timing:  agent.Timing{SayAgain: p.play.World.SayAgain.Duration()},
		Journal: journal.Options{NoSync: true, Written: func() { p.written(l) }},
	})
	return part
}

// stop ends a process in order and waits for all its lives.
func (p *process) stop() {
	if l := p.current(); l != nil {
		l.cancel()
	}
	for _, l := range p.lives {
		<-l.done
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/service"
)

// identity is under which name a host's agent runs.
type identity struct {
	name    compute.HostID // empty: the host's own
	handing bool           // the machines are handed over to it when it starts
	carried bool           // its journal is the host's
}

// refused says whether an agent is to be refused the machines of its host.
func (id identity) refused() bool { return id.name != "" && (!id.handing || id.carried) }

// rename gives a host another name for a while.
func (w *play) rename(p *process, f schedule.Fault) {
	w.rec.CountFault(f)
	id := identity{
		name: p.host.ID + "-new", handing: f.Key != schedule.Refused, carried: f.Key == schedule.Carried,
	}
	began := time.Now()
	p.become(id)
	w.rec.AddNote(p.name, "has another name now")
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		p.become(identity{handing: f.Key == schedule.Adopted})
		w.rec.AddNote(p.name, "has its name again")
		w.rec.AddRenamed(judge.Renamed{Host: p.host.ID, Name: id.name, From: began, To: time.Now()})
	})
}

// become restarts an agent under a name.
func (p *process) become(id identity) {
	p.kill(p.current(), "")
	p.mu.Lock()
	p.as = id
	p.mu.Unlock()
	p.start()
}

// called is the name that an agent is started under.
func (p *process) called() compute.HostID {
	if p.as.name != "" {
		return p.as.name
	}
	return p.host.ID
}

// mark has the host's machines say to a new life which host owns them: what they said to
// the one before, or that they were handed over.
func (p *process) mark(l *life) {
	if n := len(p.lives); n > 0 {
		if b, err := os.ReadFile(filepath.Join(p.lives[n-1].dir, "owner")); err == nil {
			p.play.must(os.WriteFile(filepath.Join(l.dir, "owner"), b, 0o600))
		}
	}
	if p.as.carried {
		b, err := os.ReadFile(p.journal(l))
		p.play.must(err)
		p.play.must(os.WriteFile(p.ownJournal(l), b, 0o600))
	}
	if !p.as.handing {
		return
	}
	err := p.adopt(l)
	if p.as.carried && err != nil {
		p.play.rec.AddNote(p.name, "is not handed over: "+err.Error())
		return
	}
	p.play.must(err)
	p.as.handing = p.as.name != "" // its journal is a new one every time
}

// ownJournal is where an agent has its journal, under the name that it is started with.
func (p *process) ownJournal(l *life) string {
	return filepath.Join(l.dir, string(p.called())+".journal")
}

// adopt is what an operator says with "berth agent adopt".
func (p *process) adopt(l *life) error {
	j, err := journal.Open(p.ownJournal(l), journal.Options{NoSync: true, Host: p.called()})
	if err != nil {
		return err
	}
	is := home.Owner{Host: p.called(), Journal: j.ID()}
	p.play.must(j.Close())
	_, err = home.Place{Dir: l.dir}.HandOver(is)
	return err
}

// roomless is a hypervisor that has room for nothing: a renamed host takes no work,
// which would be there under a name that soon is nobody's; and neither does a clone that may
// be the host as far as anybody can know, for what it takes is lost with it.
type roomless struct{ hypervisor.Driver }

func (d roomless) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	inv, err := d.Driver.Inventory(ctx)
	inv.Totals = compute.Resources{}
	return inv, err
}

// clone starts a second agent with a host's name, and has its machine lose power later.
func (w *play) clone(of *process, f schedule.Fault) {
	machines, err := w.world.Host(
		of.host.ID+"-clone",
		compute.Inventory{Totals: of.host.Totals, Traits: of.host.Traits},
	)
	w.must(err)
	p := &process{play: w, name: string(machines.ID()), host: of.host, clone: machines}
	began := time.Now()
	from := began.Sub(w.rec.Start)
	p.full = w.Hides(of.host.ID, from, from+f.For.Duration())
	p.build = func(l *life) service.Part { return p.agent(l) }
	if l := of.current(); l != nil && f.Key == schedule.CopiedJournal {
		l.mu.Lock()
		p.keep = l.disk
		l.mu.Unlock()
	}
	w.rec.CountFault(f)
	w.rec.AddNote(p.name, "has the name of "+of.name)
	w.mu.Lock()
	w.clones = append(w.clones, p)
	w.mu.Unlock()
	p.start()
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		p.hold()
		p.kill(p.current(), "")
		w.rec.AddNote(p.name, "is gone")
		w.rec.AddCloned(judge.Cloned{
			Of: of.host.ID, Host: machines.ID(), From: began, To: time.Now(), Left: machines.Machines(),
		})
		w.must(machines.Crash())
		w.after(time.Millisecond, func() { w.must(machines.Crash()) }) // what was launched in this very moment
	})
}

// copied gives the first life of a clone the mark of the machines that were copied
// with the disk.
func (p *process) copied(l *life) {
	if p.clone == nil || len(p.lives) > 0 {
		return
	}
	of := p.play.procs[string(p.host.ID)].current()
	if of == nil {
		return
	}
	if b, err := os.ReadFile(filepath.Join(of.dir, "owner")); err == nil {
		p.play.must(os.WriteFile(filepath.Join(l.dir, "owner"), b, 0o600))
	}
}

// machines are those that an agent has, and the name they are known by outside.
func (p *process) machines() (*fake.Host, compute.HostID) {
	if p.clone != nil {
		return p.clone, p.clone.ID()
	}
	return p.play.hosts[p.host.ID], p.host.ID
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/service"
)

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

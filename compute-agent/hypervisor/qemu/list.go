// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// List reads the folders and asks the processes.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Machine, error) {
	list, err := d.list(ctx)
	return list, hypervisor.Classed(ctx, "list", err)
}

// askedAtOnce is how many machines are asked at a time. Each that does not answer takes statusTime; where none does,
// for the disks of all hang, List has to end within the agent's patience, or the agent knows nothing of any: some 400
// machines can be so.
const askedAtOnce = 64

func (d *Driver) list(ctx context.Context) ([]hypervisor.Machine, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ids, err := d.instances() // by name, as the folder is read
	if err != nil {
		return nil, err
	}
	all, err := d.processes()
	if err != nil {
		return nil, err
	}
	list := make([]hypervisor.Machine, len(ids))
	failed := make([]error, len(ids))
	var asking sync.WaitGroup
	var odd counts
	workers := make(chan struct{}, askedAtOnce)
	for i, id := range ids {
		workers <- struct{}{}
		asking.Go(func() {
			defer func() { <-workers }()
			list[i], failed[i] = d.one(ctx, id, all, &odd)
		})
	}
	asking.Wait()
	d.odd.userless.Store(odd.userless.Load())
	d.odd.open.Store(odd.open.Load())
	there := list[:0]
	for i, m := range list {
		if failed[i] != nil {
			return nil, failed[i]
		}
		if m.Instance != "" {
			there = append(there, m)
		}
	}
	if err := d.stray(all, there); err != nil {
		return nil, err
	}
	return there, hypervisor.Over(ctx) // past the deadline, one without an answer may not have been asked
}

// counts are of machines that are not as they would be made now.
type counts struct {
	userless atomic.Int64 // have no user of their own
	open     atomic.Int64 // run with open user networking
}

// one is a machine as List gives it; none if it went meanwhile. It is counted.
func (d *Driver) one(
	ctx context.Context, id compute.InstanceID, all []host.Process, odd *counts,
) (hypervisor.Machine, error) {
	r, there, err := d.load(id)
	if err != nil || !there {
		return hypervisor.Machine{}, err
	}
	if r.Plan.User == 0 {
		odd.userless.Add(1)
	}
	f := d.find(ctx, id, all, statusTime)
	if f.open {
		odd.open.Add(1)
	}
	m := r.Machine
	m.Verdict = judge(r, f)
	m.Detail += "; " + d.dir(id)
	if err := d.consoles.Trim(d.dir(id)); err != nil { // a full disk, perhaps; the machine is there all the same
		m.Detail += "; its console was not cut to size: " + err.Error()
	}
	if err := d.cutLog(d.dir(id)); err != nil {
		m.Detail += "; its qemu.log was not cut to size: " + err.Error()
	}
	return m, nil
}

// isOpen says whether a guest has user networking that is not closed.
func isOpen(p host.Process) bool {
	network := p.Option("netdev")
	return strings.HasPrefix(network, "user,") && !strings.Contains(network, ",restrict=on")
}

// find looks for what there is of a machine besides its record.
func (d *Driver) find(ctx context.Context, id compute.InstanceID, all []host.Process, within time.Duration) found {
	its := of(all, d.dir(id))
	f := found{boot: d.host.BootID(), alive: len(its) > 0, open: slices.ContainsFunc(its, isOpen)}
	if f.alive {
		f.status = d.status(ctx, id, within)
	} else {
		f.log = lastLine(filepath.Join(d.dir(id), logFile))
	}
	return f
}

// eventsEvery is how often the machines are looked at for Events. QMP would say
// it sooner, to one client at a time, and nothing of a process that is killed.
const eventsEvery = time.Second

// Events looks at all machines again and again.
func (d *Driver) Events(ctx context.Context, tell func(hypervisor.Event)) error {
	var before map[compute.InstanceID]compute.PowerState
	for {
		if list, err := d.list(ctx); err == nil {
			now := make(map[compute.InstanceID]compute.PowerState, len(list))
			for _, m := range list {
				now[m.Instance] = m.Power
				if was, known := before[m.Instance]; before != nil && m.Launched && (!known || was != m.Power) {
					tell(hypervisor.Event{Instance: m.Instance, Power: m.Power, Detail: m.Detail})
				}
			}
			before = now
		}
		if !hypervisor.Pause(ctx, eventsEvery) {
			return ctx.Err()
		}
	}
}

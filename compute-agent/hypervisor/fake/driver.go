// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Options say how a driver behaves. The zero value does everything at once and
// without fault.
type Options struct {
	PrepareTime time.Duration
	LaunchTime  time.Duration
	DestroyTime time.Duration
	// Deaf guests do not shut down when asked; nil: all do, at once.
	Deaf         func(compute.InstanceID) bool
	Placeholders bool // it keeps placeholders as machines, so that all that is held shows in the world
	// Fault is asked before each call; nil, or a nil answer, is no fault.
	Fault func(Call) *Fault
}

// Call is one call of the driver.
type Call struct {
	Method   string // "Prepare", "Launch", "Stop", "Start", "Reboot", "Destroy", "List", "Inventory", "Console"
	Host     compute.HostID
	Instance compute.InstanceID // empty for List and Inventory
	Attempt  compute.Attempt    // Prepare and Launch
}

// Fault is how a call goes wrong.
type Fault struct {
	Err   error         // answered; before anything is done, unless After
	Hang  bool          // no answer until the context ends
	Slow  time.Duration // takes longer by this
	After bool          // the work is done, then Err is answered: the outcome is unknown to the caller
}

// Driver drives one fake host. Several drivers of one host, one after the
// other, are an agent that restarts.
type Driver struct {
	host *Host
	opts Options
}

var (
	_ hypervisor.Driver  = (*Driver)(nil)
	_ hypervisor.Console = (*Driver)(nil)
	_ hypervisor.Events  = (*Driver)(nil)
)

// NewDriver drives a host.
func NewDriver(h *Host, o Options) *Driver { return &Driver{host: h, opts: o} }

// Prepare defines a machine that does not run.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	call := Call{Method: "Prepare", Instance: s.Instance, Attempt: s.Attempt}
	return d.do(ctx, call, d.opts.PrepareTime, func() error {
		old, ok := d.host.machines[s.Instance]
		switch {
		case ok && old.Launched:
			return hypervisor.Refuse("attempt %d of %s was launched here", old.Attempt, s.Instance)
		case ok && old.Attempt == s.Attempt && old.Claim == s.Claim:
			return nil
		}
		if err := d.host.had(s.Instance, s.Devices); err != nil {
			return err
		}
		m := machine{Machine: s.Machine(), In: s.In}
		m.Verdict = hypervisor.Stopped("", "prepared")
		return d.host.put(m, "")
	})
}

// Launch lets a prepared machine run.
func (d *Driver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	call := Call{Method: "Launch", Instance: id, Attempt: a}
	return d.do(ctx, call, d.opts.LaunchTime, func() error {
		m, ok := d.host.machines[id]
		switch {
		case !ok:
			return hypervisor.Refuse("%s is not prepared here", id)
		case m.Attempt != a || m.Claim != c:
			return hypervisor.Refuse(
				"%s is prepared for attempt %d claim %s, not attempt %d claim %s",
				id, m.Attempt, m.Claim, a, c,
			)
		case m.Launched:
			return nil
		}
		m.Launched, m.Power, m.Detail = true, compute.PowerRunning, ""
		m.print("instance %s boots", id)
		return d.host.put(m, Launched)
	})
}

// Destroy removes a machine.
func (d *Driver) Destroy(ctx context.Context, id compute.InstanceID) error {
	return d.do(ctx, Call{Method: "Destroy", Instance: id}, d.opts.DestroyTime, func() error {
		m, ok := d.host.machines[id]
		if !ok {
			return nil
		}
		return d.host.remove(m)
	})
}

// List gives every machine of Berth on the host.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Machine, error) {
	var out []hypervisor.Machine
	err := d.do(ctx, Call{Method: "List"}, 0, func() error { return nil })
	if err == nil {
		out = d.host.Machines()
	}
	return out, err
}

// Inventory says what the host has.
func (d *Driver) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	var inv hypervisor.Inventory
	err := d.do(ctx, Call{Method: "Inventory"}, 0, func() error {
		inv.Inventory, inv.Nodes, inv.Devices = d.host.inventory, d.host.nodes, d.host.devices
		inv.Unmanaged = compute.Resources{}
		for _, f := range d.host.foreign {
			inv.Foreign = append(inv.Foreign, compute.Foreign{Name: f.Name, PID: f.PID, Uses: f.Uses.Clone()})
			inv.Unmanaged = inv.Unmanaged.Plus(f.Uses)
		}
		return nil
	})
	return inv, err
}

// Capabilities are all that records can show.
func (d *Driver) Capabilities() hypervisor.Capabilities {
	return hypervisor.Capabilities{
		Driver:   "fake",
		Home:     d.host.world.store.home(),
		SoftStop: true,
		Console:  true,
		Events:   true,
		Foreign:  true,
		Devices:  true,
		Nodes:    true,

		Placeholders: d.opts.Placeholders,
	}
}

// do is every call: the fault asked for, the time it takes, then the work, with
// the host to itself.
func (d *Driver) do(ctx context.Context, c Call, takes time.Duration, work func() error) error {
	c.Host = d.host.id
	fault := d.fault(c)
	if err := wait(ctx, takes+fault.Slow, fault.Hang); err != nil {
		return err
	}
	if fault.Err != nil && !fault.After {
		return fault.Err
	}
	d.host.mu.Lock()
	err := work()
	d.host.mu.Unlock()
	if err == nil && fault.After {
		err = fault.Err
	}
	return err
}

func (d *Driver) fault(c Call) Fault {
	if d.opts.Fault != nil {
		if f := d.opts.Fault(c); f != nil {
			return *f
		}
	}
	return Fault{}
}

// wait takes its time; a hang takes until the context ends.
func wait(ctx context.Context, takes time.Duration, hang bool) error {
	if hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil || takes <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(takes)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

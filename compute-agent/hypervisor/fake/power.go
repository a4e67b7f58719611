// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Stop ends the guest: at once if it listens, after grace if it is deaf.
func (d *Driver) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	how, takes := d.ask(id, grace)
	return d.power(ctx, "Stop", id, takes, func(m *machine) (EventKind, error) {
		if m.Power == compute.PowerStopped {
			return "", nil
		}
		m.Power, m.Why, m.Detail = compute.PowerStopped, compute.StoppedByCommand, how
		m.print("%s", how)
		return Stopped, nil
	})
}

// Start runs a stopped guest again.
func (d *Driver) Start(ctx context.Context, id compute.InstanceID) error {
	return d.power(ctx, "Start", id, 0, func(m *machine) (EventKind, error) {
		if m.Power == compute.PowerRunning {
			return "", nil
		}
		was := m.Power
		m.Power, m.Why, m.Detail = compute.PowerRunning, "", ""
		if was == compute.PowerPaused {
			return WentOn, nil
		}
		m.print("instance %s boots", id)
		return Resumed, nil
	})
}

// Reboot restarts a running guest.
func (d *Driver) Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	how, takes := d.ask(id, grace)
	return d.power(ctx, "Reboot", id, takes, func(m *machine) (EventKind, error) {
		if m.Power == compute.PowerStopped {
			return "", hypervisor.Refuse("%s is stopped: start it instead", id)
		}
		m.Power, m.Why, m.Detail = compute.PowerRunning, "", ""
		m.print("%s", how)
		m.print("instance %s boots", id)
		return Rebooted, nil
	})
}

// What a guest's console says of its end.
const (
	softly = "the guest shut down"
	hard   = "the guest was cut off"
)

// ask says how the guest ends and how long that takes.
func (d *Driver) ask(id compute.InstanceID, grace time.Duration) (how string, takes time.Duration) {
	switch {
	case grace <= 0:
		return hard, 0
	case d.opts.Deaf == nil || !d.opts.Deaf(id):
		return softly, 0
	case d.host.power(id) != compute.PowerRunning:
		return hard, 0
	}
	return hard, grace
}

func (d *Driver) power(
	ctx context.Context, method string, id compute.InstanceID, takes time.Duration,
	change func(*machine) (EventKind, error),
) error {
	return d.do(ctx, Call{Method: method, Instance: id}, takes, func() error {
		m, ok := d.host.machines[id]
		if !ok || !m.Launched {
			return hypervisor.Refuse("%s was not launched here", id)
		}
		what, err := change(&m)
		if err != nil || what == "" {
			return err
		}
		return d.host.put(m, what)
	})
}

// power is what a machine does now.
func (h *Host) power(id compute.InstanceID) compute.PowerState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machines[id].Power
}

// Events tells of each change.
func (d *Driver) Events(ctx context.Context, tell func(hypervisor.Event)) error {
	d.host.mu.Lock()
	d.host.listeners[&tell] = true
	d.host.mu.Unlock()
	<-ctx.Done()
	d.host.mu.Lock()
	delete(d.host.listeners, &tell)
	d.host.mu.Unlock()
	return ctx.Err()
}

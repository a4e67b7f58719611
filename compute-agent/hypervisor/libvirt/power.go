// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Stop presses the power button, and after grace pulls the plug.
func (d *Driver) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	return classed(ctx, "stop "+string(id), d.stop(ctx, id, grace))
}

func (d *Driver) stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	f, err := d.launched(ctx, id)
	if err != nil {
		return err
	}
	code, why := compute.StoppedByCommand, "the guest was cut off"
	switch v := judge(f, d.host.BootID()); {
	case v.Power == compute.PowerStopped:
		code, why = v.Why, v.Detail // it stopped before
	case grace > 0:
		if v.Power == compute.PowerPaused {
			_ = d.goOn(ctx, f) // if it does not: the plug, after grace
		}
		soft, err := d.press(ctx, f, grace)
		if err != nil {
			return err
		}
		if soft {
			why = "the guest shut down"
		}
	}
	f.stamp.Stopped, f.stamp.Code, f.stamp.Why = true, code, why
	if err := d.save(ctx, f); err != nil {
		return err
	}
	return d.cut(ctx, f)
}

// pollEvery is how often it is checked whether a guest that was asked to shut down has.
const pollEvery = 200 * time.Millisecond

// pressEvery is how often the power button is pressed: a guest that boots does not hear
// it, and one that shuts down does not mind.
const pressEvery = 3 * time.Second

// press asks the guest to shut down, again and again, and says whether it did within
// grace.
func (d *Driver) press(ctx context.Context, f found, grace time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	button := func(c conn) error { return c.DomainShutdownFlags(f.domain, libvirt.DomainShutdownAcpiPowerBtn) }
	if err := d.short(waiting, button); is(err,
		libvirt.ErrOperationInvalid, libvirt.ErrOperationUnsupported, libvirt.ErrNoSupport, libvirt.ErrNoDomain) {
		return false, hypervisor.Over(ctx) // it cannot even be asked: the plug
	}
	pressed := time.Now()
	for hypervisor.Pause(waiting, pollEvery) {
		if now, whose, err := d.find(waiting, f.stamp.Instance); err == nil && (whose != ours || !now.active()) {
			return true, nil
		}
		if time.Since(pressed) >= pressEvery {
			_ = d.short(waiting, button) // it was told once, and may be ending
			pressed = time.Now()
		}
	}
	return false, hypervisor.Over(ctx)
}

// Start runs a stopped machine again.
func (d *Driver) Start(ctx context.Context, id compute.InstanceID) error {
	return classed(ctx, "start "+string(id), d.start(ctx, id))
}

func (d *Driver) start(ctx context.Context, id compute.InstanceID) error {
	f, err := d.launched(ctx, id)
	if err != nil {
		return err
	}
	switch judge(f, d.host.BootID()).Power {
	case compute.PowerRunning:
		return nil
	case compute.PowerPaused, compute.PowerUnknown:
		return d.goOn(ctx, f)
	}
	if f.active() && !f.stamp.Stopped && !f.stamp.Released {
		return d.release(ctx, f)
	}
	f.stamp.Stopped, f.stamp.Code, f.stamp.Why, f.stamp.Released, f.stamp.Boot = false, "", "", true, d.host.BootID()
	if err := d.save(ctx, f); err != nil {
		return err
	}
	if f.active() { // it panicked, and its process was kept
		if err := d.cut(ctx, f); err != nil {
			return err
		}
	}
	return d.create(ctx, f, 0)
}

// goOn lets a machine go on that stands still.
func (d *Driver) goOn(ctx context.Context, f found) error {
	return d.short(ctx, func(c conn) error {
		if f.state == libvirt.DomainPmsuspended {
			return c.DomainPmWakeup(f.domain, 0)
		}
		return c.DomainResume(f.domain)
	})
}

// Reboot restarts a running guest.
func (d *Driver) Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	return classed(ctx, "reboot "+string(id), d.reboot(ctx, id, grace))
}

func (d *Driver) reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	f, err := d.launched(ctx, id)
	if err != nil {
		return err
	}
	v := judge(f, d.host.BootID())
	if v.Power == compute.PowerStopped {
		return hypervisor.Refuse("%s is stopped (%s): start it instead", id, v.Detail)
	}
	if grace <= 0 {
		err := d.short(ctx, func(c conn) error { return c.DomainReset(f.domain, 0) })
		if err == nil && v.Power == compute.PowerPaused { // a reset does not let go what stands still
			err = d.short(ctx, func(c conn) error { return c.DomainResume(f.domain) })
		}
		return err
	}
	if err := d.stop(ctx, id, grace); err != nil {
		return err
	}
	return d.start(ctx, id)
}

// launched is a machine with what it does; one that was not launched is refused.
func (d *Driver) launched(ctx context.Context, id compute.InstanceID) (found, error) {
	f, whose, err := d.find(ctx, id)
	if err == nil && (whose != ours || !f.stamp.Launched) {
		err = hypervisor.Refuse("%s was not launched here", id)
	}
	return f, err
}

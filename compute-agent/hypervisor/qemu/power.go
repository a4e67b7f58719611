// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu/qmp"
	"github.com/berth-project/berth/pkg/compute"
)

// Stop presses the power button, and after grace pulls the plug.
func (d *Driver) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	return hypervisor.Classed(ctx, "stop "+string(id), d.stop(ctx, id, grace))
}

func (d *Driver) stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	r, f, err := d.launched(ctx, id)
	if err != nil {
		return err
	}
	code, why := compute.StoppedByCommand, "the guest was cut off"
	switch v := judge(r, f); {
	case v.Power == compute.PowerStopped && r.Wanted == compute.PowerRunning:
		code, why = v.Why, v.Detail // it stopped before
	case v.Power == compute.PowerStopped:
		code, why = r.Code, r.Why
	case grace > 0:
		if v.Power == compute.PowerPaused {
			_ = d.tell(ctx, id, goesOn(f.status)) // if it does not: the plug, after grace
		}
		ended, err := d.press(ctx, id, grace)
		if err != nil {
			return err
		}
		why = cmp.Or(ended, why)
	}
	r.Wanted, r.Code, r.Why = compute.PowerStopped, code, why
	return d.halt(ctx, id, r)
}

// halt writes down that a machine is stopped, and why, and ends its process. On a full disk it ends the process first:
// that makes room for the record, the block of the pid file. If the agent dies in between, the machine is stopped, and
// List says of it that it was killed.
func (d *Driver) halt(ctx context.Context, id compute.InstanceID, r record) error {
	err := save(d.dir(id), r)
	if err != nil && !compute.DiskFull(err) {
		return err
	}
	if quit := d.quit(ctx, id); quit != nil || err == nil {
		return quit
	}
	_ = os.Remove(filepath.Join(d.dir(id), pidFile)) // QEMU has, if it could
	return save(d.dir(id), r)
}

// pollEvery is how often it is checked whether a guest that was asked to shut down has.
const pollEvery = 200 * time.Millisecond

// pressEvery is how often the power button is pressed: a guest that boots does not hear
// it, and one that shuts down does not mind.
const pressEvery = 3 * time.Second

// press asks the guest to shut down, again and again, and says how it ended within grace; empty: it did not.
func (d *Driver) press(ctx context.Context, id compute.InstanceID, grace time.Duration) (ended string, _ error) {
	waiting, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var no *qmp.Error
	if err := d.tell(waiting, id, "system_powerdown"); errors.As(err, &no) {
		return "", hypervisor.Over(ctx) // it cannot even be asked: the plug
	}
	pressed := time.Now()
	for hypervisor.Pause(waiting, pollEvery) {
		if all, err := d.processes(); err == nil && len(of(all, d.dir(id))) == 0 {
			return "its process ended meanwhile", nil // -no-shutdown keeps the process of a guest that shut down
		}
		if d.status(waiting, id, statusTime) == "shutdown" {
			return "the guest shut down", nil
		}
		if time.Since(pressed) >= pressEvery {
			_ = d.tell(waiting, id, "system_powerdown") // it was told once, and may be ending
			pressed = time.Now()
		}
	}
	return "", hypervisor.Over(ctx)
}

// quit ends a machine's process: it closes its disk in order if it answers.
func (d *Driver) quit(ctx context.Context, id compute.InstanceID) error {
	if d.tell(ctx, id, "quit") == nil {
		all, err := d.processes()
		if err != nil {
			return err
		}
		ending, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		for _, p := range of(all, d.dir(id)) {
			_ = d.end(ending, p, 0)
		}
	}
	return d.kill(ctx, id)
}

// Start runs a stopped machine again.
func (d *Driver) Start(ctx context.Context, id compute.InstanceID) error {
	return hypervisor.Classed(ctx, "start "+string(id), d.start(ctx, id))
}

func (d *Driver) start(ctx context.Context, id compute.InstanceID) error {
	r, f, err := d.launched(ctx, id)
	if err != nil {
		return err
	}
	if f.alive && f.status == "" {
		return errSilent // it may be paused: judge takes it for running
	}
	switch judge(r, f).Power {
	case compute.PowerRunning:
		return nil
	case compute.PowerPaused, compute.PowerUnknown:
		return d.tell(ctx, id, goesOn(f.status))
	}
	switch {
	case !f.alive: // or it hides, with the disk open
		err = d.kill(ctx, id)
	case f.status != "prelaunch": // shut down, panicked
		err = d.quit(ctx, id)
	}
	if err != nil {
		return err
	}
	r.Again = true
	// before the process: what dies here has run before
	if err := d.stands(r, compute.StoppedUnknown, brokenOff); err != nil {
		return err
	}
	switch err := d.ensure(ctx, &r); {
	case errors.Is(err, hypervisor.ErrCrash) || hypervisor.Over(ctx) != nil && err != nil:
		return err
	case err != nil:
		return errors.Join(err, d.stands(r, compute.HypervisorError, "its QEMU did not start: "+err.Error()))
	}
	r.Wanted, r.Code, r.Why = compute.PowerRunning, "", ""
	if err := save(d.dir(id), r); err != nil {
		return err
	}
	return d.tell(ctx, id, "cont")
}

// stands writes down that a machine is stopped, and why.
func (d *Driver) stands(r record, code compute.ReasonCode, why string) error {
	r.Wanted, r.Code, r.Why = compute.PowerStopped, code, why
	return save(d.dir(r.Machine.Instance), r)
}

// Reboot restarts a running guest.
func (d *Driver) Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	return hypervisor.Classed(ctx, "reboot "+string(id), d.reboot(ctx, id, grace))
}

func (d *Driver) reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	r, f, err := d.launched(ctx, id)
	if err != nil {
		return err
	}
	v := judge(r, f)
	switch {
	case v.Power == compute.PowerStopped:
		return hypervisor.Refuse("%s is stopped (%s): start it instead", id, v.Detail)
	case grace <= 0 && v.Power == compute.PowerRunning:
		return d.tell(ctx, id, "system_reset")
	case grace <= 0: // a reset does not let go what stands still
		if err := d.tell(ctx, id, "system_reset"); err != nil {
			return err
		}
		return d.tell(ctx, id, "cont")
	}
	if err := save(d.dir(id), r); err != nil {
		return err // the disk is full: what is stopped might not start again
	}
	if err := d.stop(ctx, id, grace); err != nil {
		return err
	}
	return d.start(ctx, id)
}

// launched is a machine with what there is of it; one that was not launched is
// refused.
func (d *Driver) launched(ctx context.Context, id compute.InstanceID) (record, found, error) {
	if ctx.Err() != nil {
		return record{}, found{}, ctx.Err()
	}
	r, there, err := d.load(id)
	if err == nil && (!there || !r.Machine.Launched) {
		err = hypervisor.Refuse("%s was not launched here", id)
	}
	if err != nil {
		return r, found{}, err
	}
	all, err := d.processes()
	return r, d.find(ctx, id, all, commandTime), err
}

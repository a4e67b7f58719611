// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Effect is something to do in the world. Each may be lost or doubled.
type Effect interface{ effect() }

type (
	// Publish puts work into a queue; Published answers it.
	Publish struct {
		Queue compute.QueueName
		Build compute.Build
	}

	// Tell says something to one host. Published answers it if it is a
	// CommandBuild, CommandWritten or CommandUndelivered if WantOffset is set, nothing does otherwise.
	Tell struct {
		Host       compute.HostID
		Command    compute.Command
		WantOffset bool // where in the host's stream it lands must be known
	}

	// AskStart wants to know up to where a queue's work is finished with;
	// QueueStart answers it.
	AskStart struct{ Queue compute.QueueName }
)

func (Publish) effect()  {}
func (Tell) effect()     {}
func (AskStart) effect() {}

// Effects is what follows from a record once it is committed, at the time it is
// carried out. It is all a new owner needs to finish what the previous one may
// have left undone.
func Effects(inst *compute.Instance, now time.Time) []Effect {
	var effects []Effect
	switch inst.State {
	case compute.StateQueued:
		if inst.PublishAt.IsZero() {
			effects = append(effects, buildEffect(inst, now))
		}
	case compute.StateStarting:
		effects = append(effects, tell(inst, compute.CommandGrant, now))
	case compute.StateActive:
		switch {
		case going(inst):
			effects = append(effects, tell(inst, compute.CommandDelete, now))
		case inst.Command != nil:
			power := tell(inst, compute.CommandPower, now)
			power.Command.Power = inst.Command
			effects = append(effects, power)
		}
	case compute.StateDeleting:
		effects = append(effects, tell(inst, compute.CommandDelete, now))
	}
	if inst.Confirm {
		effects = append(effects, tell(inst, compute.CommandConfirm, now))
	}
	return effects
}

// tell addresses the host that has the instance, about the attempt and claim it
// has it by.
func tell(inst *compute.Instance, op compute.CommandOp, now time.Time) Tell {
	c := compute.Command{
		Op: op, Project: inst.Project, Instance: inst.ID, Attempt: inst.Attempt, Claim: inst.Claim,
		At: now, Trace: inst.Trace,
	}
	if op == compute.CommandGrant || op == compute.CommandConfirm {
		c.Journal = inst.Journal
	}
	if op == compute.CommandConfirm {
		c.Queue, c.Group, c.In = inst.Queue, inst.Boot.Group(), inst.Boot.In()
		c.Preemptible, c.TimesTaken, c.Noticed = inst.Boot.IsPreemptible(), inst.TimesTaken(), inst.Notice() != nil
	}
	return Tell{Host: inst.Host, Command: c}
}

// buildEffect is the work: in its queue, or to the one host the request names.
func buildEffect(inst *compute.Instance, now time.Time) Effect {
	build := buildOf(inst, now)
	if !pinned(inst) {
		build.Failed = failedHosts(inst)
		return Publish{Queue: inst.Queue, Build: build}
	}
	return tellBuild(inst.Boot.Host, inst, build)
}

// buildOf is the work for whatever host takes it.
func buildOf(inst *compute.Instance, now time.Time) compute.Build {
	build := compute.Build{
		Instance: inst.ID, Project: inst.Project, Name: inst.Boot.Name, Attempt: inst.Attempt, Queue: inst.Queue,
		Resources: inst.Resources, Required: inst.Required, Forbidden: inst.Forbidden, Sealed: inst.Boot.Sealed,
		Image: inst.Boot.Image, Metadata: inst.Boot.Metadata, UserData: []byte(inst.Boot.UserData), SSHKeys: inst.Boot.SSHKeys,
		Avoid: inst.Boot.Avoid, Deadline: inst.Deadline, At: now, Trace: inst.Trace,
		Placeholder: inst.IsPlaceholder(), Preemptible: inst.Boot.IsPreemptible(), TimesTaken: inst.TimesTaken(),
	}
	if inst.Waits() {
		build.Hold = compute.SetHold
		if triesOf(inst) > 0 { // what of this try is still in the queue at its end shall not be prepared for nothing
			build.Deadline = earliest(inst.Deadline, now.Add(compute.SetTry))
		}
	}
	return build
}

// tellBuild is the work as an offer to one host.
func tellBuild(host compute.HostID, inst *compute.Instance, build compute.Build) Tell {
	return Tell{Host: host, Command: compute.Command{
		Op: compute.CommandBuild, Project: inst.Project, Instance: inst.ID, Attempt: inst.Attempt,
		Build: &build, At: build.At, Trace: inst.Trace,
	}}
}

func pinned(inst *compute.Instance) bool { return inst.Boot.Host != "" }

// failedHosts names each host once, in the order they failed.
func failedHosts(inst *compute.Instance) []compute.HostID {
	var hosts []compute.HostID
	for _, f := range inst.Failures {
		if !slices.Contains(hosts, f.Host) {
			hosts = append(hosts, f.Host)
		}
	}
	return hosts
}

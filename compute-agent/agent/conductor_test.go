// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func (c *cell) handle(rec wire.Record) {
	switch rec.Topic {
	case "hosts":
		b, err := wire.DecodeBeacon(rec)
		if err != nil {
			c.t.Error(err)
		}
		c.beacons = append(c.beacons, b)
		if b.Asks && !b.Leaves && !c.unmanaged {
			c.say(compute.Command{Op: compute.CommandAlone, Voices: []compute.Voice{b.Voice()}})
		}
	case "rejected":
		r, err := wire.DecodeRejected(rec)
		if err != nil {
			c.t.Error(err)
		}
		c.rejected = append(c.rejected, r)
	case "reports":
		r, err := wire.DecodeReport(rec)
		if err != nil {
			c.t.Error(err)
		}
		c.reports = append(c.reports, r)
		c.report(r)
	case "consoles":
		x, err := wire.DecodeConsole(rec)
		if err != nil {
			c.t.Error(err)
		}
		c.consoles = append(c.consoles, x)
	default:
		c.t.Errorf("a record for topic %q", rec.Topic)
	}
}

// report is the conductor: a small one, that keeps the rules an agent sees.
func (c *cell) report(r compute.Report) {
	if r.Op == compute.ReportHello {
		for _, x := range c.insts {
			x.confirm = x.state == compute.StateActive || x.state == compute.StateStarting
			c.effects(x)
		}
		return
	}
	x := c.insts[r.Instance]
	holds := x != nil && x.attempt == r.Attempt && x.claim == r.Claim && x.state.OnHost()
	switch {
	case r.Op == compute.ReportClaim && c.noGrants:
	case r.Op == compute.ReportClaim && x != nil && x.state == compute.StateQueued && x.attempt == r.Attempt:
		x.state, x.claim = compute.StateStarting, r.Claim
		c.granted[claimKey{r.Instance, r.Attempt, r.Claim}] = true
		c.effects(x)
	case r.Op == compute.ReportClaim && holds && x.state != compute.StateDeleting:
		x.confirm = false
		c.effects(x)
	case r.Op == compute.ReportClaim:
		c.say(compute.Command{
			Op: compute.CommandDeny, Project: "p", Instance: r.Instance, Attempt: r.Attempt, Claim: r.Claim,
		})
	case r.Op == compute.ReportStarted && !holds:
		c.say(compute.Command{
			Op: compute.CommandDelete, Project: "p", Instance: r.Instance, Attempt: r.Attempt, Claim: r.Claim,
		})
	case r.Op == compute.ReportPinned && x != nil && x.state == compute.StateQueued && x.attempt == r.Attempt:
		x.state = compute.StateError
	case holds:
		c.matched(x, r)
	}
}

func (c *cell) matched(x *inst, r compute.Report) {
	switch r.Op {
	case compute.ReportStarted:
		if x.state == compute.StateStarting {
			x.state = compute.StateActive
		}
		x.power, x.confirm = r.Power, false
	case compute.ReportPreempt:
		x.noticed = true
	case compute.ReportChanged:
		x.power = r.Power
		if x.command != nil && r.Version == x.command.Version {
			x.command = nil
		}
	case compute.ReportFailed, compute.ReportReturned, compute.ReportGone:
		switch {
		case x.state == compute.StateDeleting:
			x.state = compute.StateDeleted
		case x.state == compute.StateActive || x.attempt >= c.attempts,
			r.Op == compute.ReportFailed && !r.Class.Retryable():
			x.state = compute.StateError
		default:
			x.state, x.attempt, x.claim = compute.StateQueued, x.attempt+1, ""
			x.build.Attempt = x.attempt
			x.build.Failed = []compute.HostID{"h1"}
			c.publish(x)
		}
	}
}

// effects says what follows from a record.
func (c *cell) effects(x *inst) {
	cmd := compute.Command{Project: "p", Instance: x.build.Instance, Attempt: x.attempt, Claim: x.claim}
	tell := func(op compute.CommandOp) {
		cmd.Op = op
		c.say(cmd)
	}
	switch x.state {
	case compute.StateQueued:
		if x.pinned {
			c.publish(x)
		}
	case compute.StateStarting:
		tell(compute.CommandGrant)
	case compute.StateActive:
		if x.command != nil {
			cmd.Power = x.command
			tell(compute.CommandPower)
		}
	case compute.StateDeleting:
		tell(compute.CommandDelete)
	}
	if x.confirm {
		cmd.Preemptible, cmd.TimesTaken, cmd.Noticed = x.build.Preemptible, x.build.TimesTaken, x.noticed
		if cmd.Queue = x.build.Queue; x.build.Group != nil {
			cmd.Group = x.build.Group.Name
		}
		if cmd.In = x.build.In; c.older {
			cmd.Queue, cmd.Group, cmd.In = "", "", compute.InPlaceholder{}
		}
		tell(compute.CommandConfirm)
	}
}

func (c *cell) say(cmd compute.Command) {
	rec := wire.EncodeCommand(cmd)
	rec.Offset = int64(len(c.stream))
	rec.Time, rec.Logged = c.broker(), true
	c.stream = append(c.stream, rec)
	if c.node != nil && !c.node.trip.dead() && !c.hold {
		c.node.agent.Commands([]wire.Record{rec}, true)
	}
}

func (c *cell) publish(x *inst) {
	b := x.build
	if x.pinned {
		c.say(compute.Command{
			Op: compute.CommandBuild, Project: "p", Instance: b.Instance, Attempt: b.Attempt, Build: &b,
		})
		return
	}
	l := c.queues[b.Queue]
	l.items = append(l.items, &item{build: b, schema: c.schema})
	c.serve()
}

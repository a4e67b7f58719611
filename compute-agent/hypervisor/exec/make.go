// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// undoTime is how long it may take to undo a Prepare after its own time is over.
const undoTime = 30 * time.Second

// Prepare has a machine prepared. What was left unfinished, or belongs to
// another attempt, is destroyed first.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	over, err := d.begin(ctx, "prepare", s.Instance)
	if err != nil {
		return err
	}
	defer over()
	if len(s.Devices)+len(s.Nodes) > 0 {
		return hypervisor.Refuse(
			"PCI devices %v, NUMA nodes %v: this driver gives none to its machines",
			s.Devices, s.Nodes,
		)
	}
	old, there, err := d.find(ctx, s.Instance)
	switch {
	case err != nil:
		return err
	case there && old.Launched:
		return hypervisor.Refuse("attempt %d of %s was launched here: destroy it first", old.Attempt, s.Instance)
	case there && old.state == prepared && old.Attempt == s.Attempt && old.Claim == s.Claim:
		return nil
	case there:
		if err := d.destroy(ctx, s.Instance); err != nil {
			return err
		}
	}
	if err = d.make(ctx, s); err == nil || errors.Is(err, hypervisor.ErrCrash) {
		return err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if left := d.destroy(ending, s.Instance); left != nil {
		return &hypervisor.Error{
			Class:   compute.FailureHost,
			Message: fmt.Sprintf("prepare of %s failed and something is left", s.Instance),
			Cause:   fmt.Errorf("%w; and then: %w", err, left),
		}
	}
	return err
}

func (d *Driver) make(ctx context.Context, s hypervisor.Spec) error {
	c := call{verb: "prepare", instance: s.Instance, lines: []any{
		identity{version, s.Instance, s.Project, s.Attempt, s.Claim, s.Fence, s.Resources},
		request{s.Image, s.Name, s.Metadata, s.SSHKeys, s.UserData},
	}}
	err := d.do(ctx, c)
	if died := d.crash("prepared"); died != nil {
		return died
	}
	if err != nil {
		return err
	}
	f, there, err := d.find(ctx, s.Instance)
	asGiven := there && f.state == prepared && f.Attempt == s.Attempt && f.Claim == s.Claim && f.Fence == s.Fence &&
		f.Project == s.Project && f.Resources.Equal(s.Resources)
	if err == nil && !asGiven {
		err = d.fail(c, "exits with 0, but list does not give the machine as prepared with the metadata it was given",
			&hypervisor.Said{})
	}
	return err
}

// Launch has a prepared machine run.
func (d *Driver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, claim compute.ClaimID) error {
	over, err := d.begin(ctx, "launch", id)
	if err != nil {
		return err
	}
	defer over()
	f, there, err := d.find(ctx, id)
	switch {
	case err != nil:
		return err
	case !there || f.state == preparing:
		return hypervisor.Refuse("%s is not prepared here", id)
	case f.Attempt != a || f.Claim != claim:
		return hypervisor.Refuse(
			"%s is prepared for attempt %d claim %s, not attempt %d claim %s",
			id, f.Attempt, f.Claim, a, claim,
		)
	case f.Launched:
		return nil
	}
	c := call{verb: "launch", instance: id, lines: []any{launchRequest{version, a, claim}}}
	err = d.do(ctx, c)
	if died := d.crash("launched"); died != nil {
		return died
	}
	if err != nil {
		return err
	}
	f, there, err = d.find(ctx, id)
	if err == nil && (!there || !f.Launched) {
		err = d.fail(c, "exits with 0, but list does not give the machine as launched", &hypervisor.Said{})
	}
	return err
}

// Destroy has all of a machine removed, also what list does not show.
func (d *Driver) Destroy(ctx context.Context, id compute.InstanceID) error {
	over, err := d.begin(ctx, "destroy", id)
	if err != nil {
		return err
	}
	defer over()
	return d.destroy(ctx, id)
}

func (d *Driver) destroy(ctx context.Context, id compute.InstanceID) error {
	c := call{verb: "destroy", instance: id}
	if err := d.do(ctx, c); err != nil {
		return err
	}
	_, there, err := d.find(ctx, id)
	if err == nil && there {
		err = d.fail(c, "exits with 0, but list still gives the machine", &hypervisor.Said{})
	}
	return err
}

// begin waits until no other call changes the instance.
func (d *Driver) begin(ctx context.Context, verb string, id compute.InstanceID) (over func(), err error) {
	if err := id.Check(); err != nil {
		return nil, hypervisor.Reject("%v", err)
	}
	over, err = d.locks.lock(ctx, id)
	if err != nil {
		return nil, d.ended(ctx, call{verb: verb, instance: id})
	}
	return over, nil
}

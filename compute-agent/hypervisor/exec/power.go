// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Stop has a machine shut down or switched off. One that is stopped is stopped
// again: a start that was broken off may still be coming up.
func (d *Driver) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	over, _, err := d.ofLaunched(ctx, "stop", id)
	if err != nil {
		return err
	}
	defer over()
	c := powerCall("stop", id, grace)
	if err := d.do(ctx, c); err != nil {
		return err
	}
	f, there, err := d.find(ctx, id)
	if err == nil && (!there || f.Power != compute.PowerStopped) {
		err = d.fail(c, "exits with 0, but list does not give the machine as stopped", &hypervisor.Said{})
	}
	return err
}

// Start has a stopped machine run again.
func (d *Driver) Start(ctx context.Context, id compute.InstanceID) error {
	over, f, err := d.ofLaunched(ctx, "start", id)
	if err != nil {
		return err
	}
	defer over()
	if f.Power == compute.PowerRunning {
		return nil
	}
	return d.do(ctx, call{verb: "start", instance: id})
}

// Reboot has a running machine start anew.
func (d *Driver) Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	over, f, err := d.ofLaunched(ctx, "reboot", id)
	if err != nil {
		return err
	}
	defer over()
	if f.Power == compute.PowerStopped {
		return hypervisor.Refuse("%s is stopped (%s): start it instead", id, f.Detail)
	}
	return d.do(ctx, powerCall("reboot", id, grace))
}

func powerCall(verb string, id compute.InstanceID, grace time.Duration) call {
	grace = max(grace, 0)
	return call{verb: verb, instance: id, lines: []any{powerRequest{version, grace.Milliseconds()}}, patience: grace}
}

// ofLaunched begins a call about a machine that was launched, and refuses any
// other.
func (d *Driver) ofLaunched(ctx context.Context, verb string, id compute.InstanceID) (over func(), f found, err error) {
	if over, err = d.begin(ctx, verb, id); err != nil {
		return nil, f, err
	}
	f, there, err := d.find(ctx, id)
	if err == nil && (!there || !f.Launched) {
		err = hypervisor.Refuse("%s was not launched here", id)
	}
	if err != nil {
		over()
		return nil, f, err
	}
	return over, f, nil
}

// talking is a driver with a command that keeps consoles.
type talking struct{ *Driver }

// mostConsole is how much is asked for at once.
const mostConsole = 1 << 20

// Console asks the command.
func (d talking) Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	if err := id.Check(); err != nil {
		return hypervisor.Part{}, &hypervisor.Error{Class: compute.FailureRequest, Message: err.Error()}
	}
	_, there, err := d.find(ctx, id)
	if err == nil && !there {
		err = hypervisor.Refuse("%s is not here", id)
	}
	if err != nil {
		return hypervisor.Part{}, err
	}
	limit = min(max(limit, 0), mostConsole)
	var answer struct {
		Offset int64  `json:"offset"`
		Data   []byte `json:"data"` // base64
		End    int64  `json:"end"`
	}
	c := call{verb: "console", instance: id, lines: []any{consoleRequest{version, offset, limit}}, answer: &answer}
	if err := d.do(ctx, c); err != nil {
		return hypervisor.Part{}, err
	}
	p := hypervisor.Part{Offset: answer.Offset, Data: answer.Data, End: answer.End}
	if p.Offset < 0 || len(p.Data) > limit || p.Offset+int64(len(p.Data)) > p.End {
		return hypervisor.Part{}, d.fail(c, "answers an offset, data and end that do not fit each other, or more "+
			"than was asked for", &hypervisor.Said{})
	}
	return p, nil
}

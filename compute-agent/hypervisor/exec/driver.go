// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// Driver runs machines through a command.
type Driver struct {
	o     Options
	can   abilities
	locks locks
	crash hypervisor.CrashPoint

	lingers time.Duration // as the constant, but in tests
}

var (
	_ hypervisor.Driver  = (*Driver)(nil)
	_ hypervisor.Console = talking{}
)

// Open asks the command what it can do. The driver is a Console if the command
// can show one.
func Open(ctx context.Context, o Options) (hypervisor.Driver, error) {
	d, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return d.whole(), nil
}

// askTime is how long a command may take to say what it can do.
const askTime = 15 * time.Second

func open(ctx context.Context, o Options) (*Driver, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	d := &Driver{o: o.defaults(), crash: hypervisor.NoCrash, lingers: lingers}
	program := o.Command[0]
	if info, err := os.Stat(program); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		if err == nil {
			err = errors.New("it is no executable file")
		}
		return nil, &compute.Error{
			Kind: compute.KindInvalid, Field: "command", Value: program, Message: "cannot be run",
			Remedy: "put the program there, executable for the agent's user", Cause: err,
		}
	}
	if err := host.This().OwnDescriptors(); err != nil {
		return nil, err
	}
	asked := &Driver{o: d.o, lingers: d.lingers}
	asked.o.Timeout = min(d.o.Timeout, askTime)
	return d, asked.do(ctx, call{verb: "capabilities", answer: &d.can})
}

// whole is the driver with what is optional.
func (d *Driver) whole() hypervisor.Driver {
	if d.can.Console {
		return talking{d}
	}
	return d
}

// Capabilities says what the command said when the driver was opened.
func (d *Driver) Capabilities() hypervisor.Capabilities {
	return hypervisor.Capabilities{
		Driver: "exec", Home: strings.Join(d.o.Command, " "), SoftStop: d.can.SoftStop, Console: d.can.Console,
		Foreign: d.can.Foreign,
		Detail:  d.o.Command[0] + ": " + hypervisor.Printable(short(d.can.Detail)),
	}
}

// List asks the command.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Machine, error) {
	all, err := d.list(ctx)
	var list []hypervisor.Machine
	for _, f := range all {
		list = append(list, f.Machine)
	}
	return list, err
}

func (d *Driver) list(ctx context.Context) ([]found, error) {
	var l listing
	c := call{verb: "list", answer: &l}
	if err := d.do(ctx, c); err != nil {
		return nil, err
	}
	all, err := l.machines()
	if err != nil {
		return nil, d.fail(c, "answers what cannot be: "+err.Error(), &hypervisor.Said{})
	}
	return all, nil
}

// find is what there is of one instance.
func (d *Driver) find(ctx context.Context, id compute.InstanceID) (found, bool, error) {
	all, err := d.list(ctx)
	for _, f := range all {
		if f.Instance == id {
			return f, true, nil
		}
	}
	return found{}, false, err
}

// Inventory asks the command.
func (d *Driver) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	var h holdings
	c := call{verb: "inventory", answer: &h}
	if err := d.do(ctx, c); err != nil {
		return hypervisor.Inventory{}, err
	}
	inv, err := h.inventory()
	if err != nil {
		return hypervisor.Inventory{}, d.fail(c, "answers what cannot be: "+err.Error(), &hypervisor.Said{})
	}
	return inv, nil
}

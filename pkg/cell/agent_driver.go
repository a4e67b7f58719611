// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/exec"
	"github.com/berth-project/berth/compute-agent/hypervisor/libvirt"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/service"
)

// QEMUAgent is the agent of this host. Its driver is opened when the part is
// made: the probe of KVM may take some seconds.
func QEMUAgent(c Cell, o AgentOptions, q qemu.Options) service.Part {
	return opened(c, o, func(ctx context.Context) (hypervisor.Driver, error) { return qemu.Open(ctx, q) })
}

// opened is the agent of this host, with a driver that is opened when the part is
// made, and its machines are known to be this agent's.
func opened(c Cell, o AgentOptions, open func(context.Context) (hypervisor.Driver, error)) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) {
		o.Open = func() (hypervisor.Driver, error) {
			d, err := open(ctx)
			if err == nil {
				can := d.Capabilities()
				c.Log.Info("machines are real", zap.String("driver", can.Driver), zap.String("with", can.Detail))
				for _, w := range can.Warnings {
					c.Log.Warn(w)
				}
			}
			return d, err
		}
		return agentWithRoom(ctx, c, o)
	})
}

// LibvirtAgent is the agent of this host; its libvirt has to be there.
func LibvirtAgent(c Cell, o AgentOptions, l libvirt.Options) service.Part {
	return opened(c, o, func(ctx context.Context) (hypervisor.Driver, error) { return libvirt.Open(ctx, l) })
}

// ExecErrors gives what is wrong with the options the keys of the file.
func ExecErrors(err error) error {
	var errs []error
	for _, err := range config.All(err) {
		var e *compute.Error
		if errors.As(err, &e) {
			err = config.At("driver.exec."+e.Field, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ExecAgent is the agent of this host. Its command is asked what it can do when
// the part is made.
func ExecAgent(c Cell, o AgentOptions, e exec.Options) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) {
		o.Open = func() (hypervisor.Driver, error) {
			d, err := exec.Open(ctx, e)
			if err != nil {
				return nil, ExecErrors(err)
			}
			c.Log.Info("machines are run by a command", zap.String("with", d.Capabilities().Detail))
			return d, nil
		}
		return agentWithRoom(ctx, c, o)
	})
}

package main

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

// qemuAgent is the agent of this host. Its driver is opened when the part is
// made: the probe of KVM may take some seconds.
func qemuAgent(c cell, o agentOptions, q qemu.Options) service.Part {
	return opened(c, o, func(ctx context.Context) (hypervisor.Driver, error) { return qemu.Open(ctx, q) })
}

// opened is the agent of this host, with a driver that is opened when the part is
// made, and its machines are known to be this agent's.
func opened(c cell, o agentOptions, open func(context.Context) (hypervisor.Driver, error)) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) {
		o.Open = func() (hypervisor.Driver, error) {
			d, err := open(ctx)
			if err == nil {
				can := d.Capabilities()
				c.log.Info("machines are real", zap.String("driver", can.Driver), zap.String("with", can.Detail))
				for _, w := range can.Warnings {
					c.log.Warn(w)
				}
			}
			return d, err
		}
		return agentWithRoom(ctx, c, o)
	})
}

// libvirtAgent is the agent of this host, whose libvirt has to be there.
func libvirtAgent(c cell, o agentOptions, l libvirt.Options) service.Part {
	return opened(c, o, func(ctx context.Context) (hypervisor.Driver, error) { return libvirt.Open(ctx, l) })
}

// atExec gives what is wrong with the options the keys of the file.
func atExec(err error) error {
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

// execAgent is the agent of this host. Its command is asked what it can do when
// the part is made.
func execAgent(c cell, o agentOptions, e exec.Options) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) {
		o.Open = func() (hypervisor.Driver, error) {
			d, err := exec.Open(ctx, e)
			if err != nil {
				return nil, atExec(err)
			}
			c.log.Info("machines are run by a command", zap.String("with", d.Capabilities().Detail))
			return d, nil
		}
		return agentWithRoom(ctx, c, o)
	})
}

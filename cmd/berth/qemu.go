package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/service"
)

// qemuConfig is this host with machines on QEMU.
type qemuConfig struct {
	Dir           string            `yaml:"dir"`
	Images        string            `yaml:"images"`
	ImagesTrusted bool              `yaml:"images_trusted"`
	Machine       string            `yaml:"machine"`
	Accel         string            `yaml:"accel"`
	Network       string            `yaml:"network"`
	Users         string            `yaml:"users"`
	Totals        compute.Resources `yaml:"totals"`
	Reserved      compute.Resources `yaml:"reserved"`
	Traits        []compute.Trait   `yaml:"traits"`
	ConsoleBytes  int64             `yaml:"console_bytes"`
	MinFree       int64             `yaml:"min_free"`
}

func defaultQEMU() qemuConfig {
	return qemuConfig{
		Dir: "/var/lib/berth/qemu", Images: "/var/lib/berth/images", Machine: "q35", Accel: "auto", Network: "user",
		ConsoleBytes: 1 << 20, MinFree: 256 << 20,
	}
}

func (q qemuConfig) options() qemu.Options {
	return qemu.Options{
		Dir: q.Dir, Images: q.Images, ImagesTrusted: q.ImagesTrusted, Machine: q.Machine, Accel: q.Accel, Network: q.Network, Users: q.Users,
		Totals: q.Totals, Reserved: q.Reserved, Traits: q.Traits, ConsoleBytes: q.ConsoleBytes, MinFree: q.MinFree,
	}
}

func (q qemuConfig) check() error {
	return realHost("driver.qemu", q.options(), q.Totals, q.Reserved, q.Traits)
}

// realHost says what is wrong with a real host's settings below a key. The driver
// looks at its own options.
func realHost(key string, driver interface{ Check() error }, totals, reserved compute.Resources, traits []compute.Trait) error {
	var errs []error
	for _, err := range config.All(driver.Check()) {
		var e *compute.Error
		if errors.As(err, &e) {
			err = config.At(key+"."+e.Field, err)
		}
		errs = append(errs, err)
	}
	errs = append(errs, config.At(key+".totals", totals.Check()))
	for _, class := range reserved.Classes() { // nothing of a class is allowed here
		errs = append(errs, config.At(key+".reserved", class.Check()), between(key+".reserved", int(reserved[class]), 0, compute.MaxAmount))
	}
	for _, t := range traits {
		errs = append(errs, config.At(key+".traits", t.Check()))
	}
	return errors.Join(errs...)
}

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

package main

import (
	"context"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/libvirt"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// libvirtConfig is this host with machines on libvirt.
type libvirtConfig struct {
	URI           string            `yaml:"uri"`
	Socket        string            `yaml:"socket"`
	Dir           string            `yaml:"dir"`
	Images        string            `yaml:"images"`
	ImagesTrusted bool              `yaml:"images_trusted"`
	Machine       string            `yaml:"machine"`
	Accel         string            `yaml:"accel"`
	Network       string            `yaml:"network"`
	Totals        compute.Resources `yaml:"totals"`
	Reserved      compute.Resources `yaml:"reserved"`
	Traits        []compute.Trait   `yaml:"traits"`
	ConsoleBytes  int64             `yaml:"console_bytes"`
	MinFree       int64             `yaml:"min_free"`
}

func defaultLibvirt() libvirtConfig {
	q := defaultQEMU()
	return libvirtConfig{
		URI: "qemu:///system", Dir: "/var/lib/berth/libvirt", Images: q.Images, Machine: q.Machine, Accel: q.Accel, Network: q.Network,
		ConsoleBytes: q.ConsoleBytes, MinFree: q.MinFree,
	}
}

func (l libvirtConfig) options() libvirt.Options {
	return libvirt.Options{
		URI: l.URI, Socket: l.Socket, Dir: l.Dir, Images: l.Images, ImagesTrusted: l.ImagesTrusted,
		Machine: l.Machine, Accel: l.Accel, Network: l.Network,
		Totals: l.Totals, Reserved: l.Reserved, Traits: l.Traits, ConsoleBytes: l.ConsoleBytes, MinFree: l.MinFree,
	}
}

func (l libvirtConfig) check() error {
	return realHost("driver.libvirt", l.options(), l.Totals, l.Reserved, l.Traits)
}

// libvirtAgent is the agent of this host, whose libvirt has to be there.
func libvirtAgent(c cell, o agentOptions, l libvirt.Options) service.Part {
	return opened(c, o, func(ctx context.Context) (hypervisor.Driver, error) { return libvirt.Open(ctx, l) })
}

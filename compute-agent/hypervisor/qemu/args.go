// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/accel"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// plan is all of a machine that its command line follows from. It is kept with
// the machine, so that a later start makes the same one.
type plan struct {
	ID       compute.InstanceID
	Machine  string // "q35" or "pc"
	Accel    string // "kvm" or "tcg"
	CPUs     int64
	MemoryMB int64
	Disk     bool // it has a disk.qcow2
	// the image's disk below it, in the machine's folder, as kernel and initrd are (of a machine of version 0.1.0: in
	// the folder of images); empty: none, or made before this was written down
	Base    string               `json:",omitempty"`
	Format  string               `json:",omitempty"` // of Base: "qcow2" or "raw"
	Kernel  string               `json:",omitempty"` // boots this instead of the disk
	Initrd  string               `json:",omitempty"`
	Append  string               `json:",omitempty"`
	Network string               // as in Options
	Devices []compute.PCIAddress `json:",omitempty"`
	User    int                  `json:",omitempty"` // the user that its process runs as; 0: the agent's
	// its memory is on these NUMA nodes, and it runs on their processors
	Nodes []int `json:",omitempty"`
}

// The files of a machine's folder, besides its disk, its seed and its console.
const (
	recordFile = "machine.json"
	lockFile   = "lock"
	pidFile    = "pid"
	socketFile = "qmp.sock"
	logFile    = "qemu.log"
	oldLogFile = "qemu.log.old"
)

// socketFD is where QEMU finds its listening QMP socket. The lock's descriptor
// is the one before; QEMU does not know of it and so never closes it.
const (
	lockFD   = 3
	socketFD = 4
)

// args is the command line of a machine in its folder. Commas are doubled where
// QEMU would take them for the next property.
func (p plan) args(dir string) []string {
	in := func(name string) string { return comma(filepath.Join(dir, name)) }
	a := []string{
		"-name", "guest=berth-" + string(p.ID),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-machine", p.machine(),
		"-cpu", accel.CPU(p.Accel),
		"-smp", fmt.Sprint(p.CPUs), "-m", fmt.Sprint(p.MemoryMB, "M"),
		"-uuid", string(p.ID), "-smbios", "type=1,manufacturer=Berth,product=Berth,serial=" + string(p.ID),
		"-S", "-no-shutdown",
		"-chardev", fmt.Sprintf("socket,id=qmp,fd=%d,server=on,wait=off", socketFD), "-mon",
		"chardev=qmp,mode=control",
		"-chardev", "file,id=console,path=" + in(console.File) + ",append=on", "-serial", "chardev:console",
		"-device", "virtio-rng-pci", "-device", "pvpanic",
		"-sandbox", p.sandbox(),
	}
	if p.Kernel != "" {
		a = append(a, "-kernel", p.Kernel, "-append", p.Append)
		if p.Initrd != "" {
			a = append(a, "-initrd", p.Initrd)
		}
	}
	if p.Disk {
		a = append(a, "-blockdev", p.disk(filepath.Join(dir, prepare.DiskFile)), "-device",
			"virtio-blk-pci,drive=disk,bootindex=1")
	}
	a = append(
		a, "-drive", "file="+in(prepare.SeedFile)+",format=raw,if=none,id=seed,read-only=on", "-device",
		"virtio-blk-pci,drive=seed",
	)
	a = append(a, p.network()...)
	for _, d := range p.Devices {
		a = append(a, "-device", "vfio-pci,host="+string(d))
	}
	if len(p.Nodes) > 0 {
		memory := fmt.Sprintf("memory-backend-ram,id=memory,size=%dM,policy=bind", p.MemoryMB)
		for _, n := range p.Nodes {
			memory += fmt.Sprint(",host-nodes=", n)
		}
		a = append(a, "-object", memory)
	}
	// By this a process is known for the machine's (see in). It is the last, for QEMU and host.Process alike take the
	// last of two, and an image chooses what stands behind -append.
	return append(a, "-pidfile", filepath.Join(dir, pidFile))
}

// node is one of QEMU's block devices.
type node struct {
	Driver   string `json:"driver"`
	Name     string `json:"node-name,omitempty"`
	Filename string `json:"filename,omitempty"`
	ReadOnly bool   `json:"read-only,omitempty"`
	Discard  string `json:"discard,omitempty"`
	File     *node  `json:"file,omitempty"`
	Backing  any    `json:"backing,omitempty"` // *node, or nothing for sure: json's null
}

// disk is the machine's own disk upon the image's. Each file and its format is named
// here, so that QEMU guesses at none and follows nothing that is written in one.
func (p plan) disk(file string) string {
	n := node{Driver: "qcow2", Name: "disk", Discard: "unmap", File: &node{Driver: "file", Filename: file,
		Discard: "unmap"}}
	if p.Base != "" {
		base := &node{Driver: p.Format, ReadOnly: true, File: &node{Driver: "file", Filename: p.Base, ReadOnly: true}}
		if n.Backing = base; p.Format == "qcow2" {
			base.Backing = json.RawMessage("null")
		}
	}
	b, _ := json.Marshal(n) // strings and null
	return string(b)
}

func (p plan) machine() string {
	m := p.Machine + ",accel=" + p.Accel
	if len(p.Nodes) > 0 {
		m += ",memory-backend=memory"
	}
	return m
}

func (p plan) network() []string {
	device := "virtio-net-pci,netdev=net,mac=" + hypervisor.MAC(p.ID)
	switch bridge, ok := strings.CutPrefix(p.Network, "bridge:"); {
	case ok:
		return []string{"-netdev", "bridge,id=net,br=" + comma(bridge), "-device", device}
	case p.Network == host.NetworkUser: // neither the host (10.0.2.2 is its loopback there) nor anything behind it
		return []string{"-netdev", "user,id=net,restrict=on", "-device", device}
	case p.Network == host.NetworkOpen:
		return []string{"-netdev", "user,id=net", "-device", device}
	}
	return nil
}

// sandbox forbids QEMU what it never needs; a bridge needs a program of QEMU's
// that gains privileges.
func (p plan) sandbox() string {
	const always = "on,obsolete=deny,resourcecontrol=deny"
	if strings.HasPrefix(p.Network, "bridge:") {
		return always
	}
	return always + ",elevateprivileges=deny,spawn=deny"
}

func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

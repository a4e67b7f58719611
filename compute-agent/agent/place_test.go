// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

// gpus gives the host two nodes with a card of two parts each, and says how they
// are offered.
func gpus(c *cell) func(*Options) {
	c.inv.Totals = compute.Resources{compute.VCPU: 16, compute.MemoryMB: 16384, "CUSTOM_GPU": 2, "CUSTOM_SLICE": 4}
	var nodes []compute.NUMANode
	var devices []compute.PCIDevice
	for n := range 2 {
		nodes = append(nodes, compute.NUMANode{ID: n, CPUs: make([]int, 8), MemoryMB: 8192})
		whole := compute.PCIAddress(fmt.Sprintf("0000:0%d:00.0", n))
		devices = append(
			devices, compute.PCIDevice{Address: whole, Vendor: 1, Device: 1, Driver: "vfio-pci", Node: n},
		)
		for part := range 2 {
			at := compute.PCIAddress(fmt.Sprintf("0000:0%d:00.%d", n, part+1))
			devices = append(
				devices,
				compute.PCIDevice{Address: at, Vendor: 1, Device: 2, Driver: "vfio-pci", Parent: whole, Node: n},
			)
		}
	}
	c.host.SetHardware(nodes, devices)
	return func(o *Options) {
		o.Terms = offer.Terms{
			OneNode: true,
			Devices: []offer.DeviceRule{
				{Class: "CUSTOM_GPU", ID: "0001:0001"}, {Class: "CUSTOM_SLICE", ID: "0001:0002"},
			},
		}
	}
}

// places are the devices and nodes of the host's machines, by instance.
func places(c *cell) string {
	var out []string
	for _, m := range c.host.Machines() {
		out = append(out, fmt.Sprintf("%s%v%v", m.Instance[len(m.Instance)-1:], m.Devices, m.Nodes))
	}
	return strings.Join(out, " ")
}

// Each machine has devices of its own, near its processors. They are in the journal
// before the hypervisor hears of them, and stay a machine's over restarts of the
// agent, with its journal and without.
func TestMachinesHaveTheirPlace(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		change := gpus(c)
		var early []string
		watch := fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" {
				if e := c.node.entry(call.Instance); len(e.Devices) != 1 || len(e.Nodes) != 1 {
					early = append(early, fmt.Sprintf("%s: %v %v", call.Instance, e.Devices, e.Nodes))
				}
			}
			return nil
		}}
		n := c.start(dir, watch, change)
		for i, q := range []string{"gpu", "slice", "slice", "gpu"} {
			c.boot(i+1, q)
			pass(10 * time.Second)
		}
		c.want(compute.StateActive, compute.StateActive, compute.StateActive, compute.StateQueued)
		const want = "1[0000:00:00.0][0] 2[0000:01:00.1][1] 3[0000:01:00.2][1]"
		if got := places(c); got != want {
			c.t.Errorf("they are at %s, want %s", got, want)
		}
		if len(early) > 0 {
			c.t.Errorf("prepared before it was written down: %v", early)
		}
		b := c.beacon()
		if b.Free["CUSTOM_GPU"] != 0 || b.Free["CUSTOM_SLICE"] != 0 || b.Largest[compute.VCPU] != 7 {
			c.t.Errorf("the beacon says %v free, one machine at most %v", b.Free, b.Largest)
		}
		stop(c, n)
		for _, folder := range []string{dir, t.TempDir()} {
			n = c.start(folder, watch, change)
			pass(time.Minute)
			c.want(compute.StateActive, compute.StateActive, compute.StateActive, compute.StateQueued)
			stop(c, n)
		}
		n = c.start(dir, watch, change)
		c.delete(2)
		c.delete(3)
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateDeleted, compute.StateDeleted, compute.StateActive)
		if got := places(c); got != "1[0000:00:00.0][0] 4[0000:01:00.0][1]" {
			c.t.Errorf("at last they are at %s", got)
		}
		stop(c, n)
	},
		queue("gpu", compute.Resources{compute.VCPU: 1, "CUSTOM_GPU": 1}),
		queue("slice", compute.Resources{compute.VCPU: 1, "CUSTOM_SLICE": 1}))
}

// entry is what the journal has of an instance now.
func (n *node) entry(id compute.InstanceID) journal.Entry {
	s, err := n.journal.Read()
	if err != nil {
		n.cell.t.Error(err)
	}
	return s.Entries[id]
}

// A pinned build that no node has room for is refused with the reason.
func TestPinnedWorkThatNoNodeHasRoomFor(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, gpus(c))
		pass(time.Second)
		c.pin(1, "small", compute.Resources{compute.VCPU: 9, compute.MemoryMB: 1024})
		pass(5 * time.Second)
		c.want(compute.StateError)
		said := c.reports[slices.IndexFunc(
			c.reports, func(r compute.Report) bool { return r.Op == compute.ReportPinned },
		)].Message
		if !strings.Contains(said, "one machine may have VCPU=8 at most") {
			c.t.Errorf("it was refused for %q", said)
		}
		stop(c, n)
	})
}

// A host that may promise twice what it has takes twice as much, but nothing that
// is larger than it is.
func TestOverCommit(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.inv.Totals = compute.Resources{compute.VCPU: 32, compute.MemoryMB: 16384, "CUSTOM_PCI": 1}
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Terms.OverCommit = offer.Ratios{compute.VCPU: 2} })
		c.boot(1, "wide")
		c.boot(2, "wide")
		c.boot(3, "wider")
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateActive, compute.StateQueued)
		if b := c.beacon(); b.Inventory.Totals[compute.VCPU] != 32 || b.Free[compute.VCPU] != 8 ||
			b.Inventory.Largest[compute.VCPU] != 16 {
			c.t.Errorf(
				"the beacon says %v, one machine at most %v, and %v free", b.Inventory.Totals, b.Inventory.Largest,
				b.Free,
			)
		}
		stop(c, n)
	}, queue("wide", compute.Resources{compute.VCPU: 12}), queue("wider", compute.Resources{compute.VCPU: 17}))
}

// plain is a driver that can give machines no place.
type plain struct{ *fake.Driver }

func (d plain) Capabilities() (can hypervisor.Capabilities) {
	can = d.Driver.Capabilities()
	can.Devices, can.Nodes = false, false
	return can
}

func TestTermsThatTheDriverCannotKeep(t *testing.T) {
	host, err := fake.NewWorld().Host("h1", big)
	if err != nil {
		t.Fatal(err)
	}
	for says, terms := range map[string]offer.Terms{
		"gives no PCI devices": {Devices: []offer.DeviceRule{{Class: "CUSTOM_GPU", ID: "0001:0001"}}},
		"NUMA":                 {OneNode: true},
	} {
		err := Options{Driver: plain{fake.NewDriver(host, fake.Options{})}, Terms: terms}.checkTerms()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", terms, err)
		}
	}
}

// moved is a driver that keeps its machines elsewhere.
type moved struct{ *fake.Driver }

func (d moved) Capabilities() (can hypervisor.Capabilities) {
	can = d.Driver.Capabilities()
	can.Home = "/elsewhere"
	return can
}

// A driver that does not see a host's machines would report them all lost.
func TestAnotherDriverThanTheJournals(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(10 * time.Second)
		stop(c, n)
		open := func() error {
			j, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			_, err = New(Options{
				Host: "h1", Partitions: 1, Journal: j, Driver: moved{fake.NewDriver(c.host, fake.Options{})},
				Puller: n, Reporter: n,
			})
			return err
		}
		if err := open(); err == nil || !strings.Contains(err.Error(), "/elsewhere") || !strings.Contains(
			err.Error(), `journal has 1 made by "fake"`,
		) {
			t.Errorf("another driver is answered %v", err)
		}
		n = c.start(dir, fake.Options{}, nil)
		c.delete(1)
		pass(10 * time.Second)
		stop(c, n)
		if err := open(); err != nil {
			t.Errorf("another driver on an empty host is answered %v", err)
		}
	})
}

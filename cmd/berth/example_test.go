package main

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// The example this design comes from: flavors tiny, medium and large with or
// without an exclusive PCI device are 6 queues. A host of 16 GB with one device
// waits on all 6; once a tiny with the device is there, on none of those with
// it; once that is deleted, on all 6 again. Without the queue manager, what
// exists goes on placing.
func TestTheDesignsExample(t *testing.T) {
	const device = compute.ResourceClass("CUSTOM_PCI_DEVICE")
	host := smallHost(1)
	host.Inventory.Reserved = nil
	host.Inventory.Totals = compute.Resources{compute.VCPU: 200, compute.MemoryMB: 16 << 10, compute.DiskGB: 1000, device: 1}
	r := newRig(t, kafkatest.Kafka(t), host).up()
	c := r.as("p")
	size := func(name compute.FlavorName, memory int64) compute.Flavor {
		return compute.Flavor{Name: name, Capabilities: []compute.AxisName{"pci"}, Resources: compute.Resources{
			compute.VCPU: 1, compute.MemoryMB: memory, compute.DiskGB: 1,
		}}
	}
	r.offer(c,
		[]compute.Capability{{Axis: "pci", Values: []compute.CapabilityValue{{Value: "exclusive", Consumes: compute.Resources{device: 1}}}}},
		[]compute.Flavor{size("tiny", 128), size("medium", 4<<10), size("large", 8<<10)},
	)
	plain := []compute.QueueName{"large", "medium", "tiny"}
	all := []compute.QueueName{"large", "large.pci-exclusive", "medium", "medium.pci-exclusive", "tiny", "tiny.pci-exclusive"}

	r.waitsOn(c, host.ID, all)
	taken := r.boot(c, 1, compute.Boot{Flavor: "tiny", With: compute.Choices{"pci": "exclusive"}})
	r.await(taken, compute.StateActive)
	r.waitsOn(c, host.ID, plain)
	r.delete(c, taken)
	r.await(taken, compute.StateDeleted)
	r.waitsOn(c, host.ID, all)

	r.stop("queues")
	ids := r.boot(c, 100, compute.Boot{Flavor: "tiny"})
	r.await(ids, compute.StateActive)
	r.exactlyOnce(append(ids, taken...))
}

// waitsOn waits until the host says that it waits on exactly these queues.
func (r *rig) waitsOn(c *client.Client, h compute.HostID, want []compute.QueueName) {
	r.t.Helper()
	var got []compute.QueueName
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s waits on %v, want %v", h, got, want)
		}
	}()
	r.poll("what the host waits on", func() bool {
		host, err := c.Host(r.t.Context(), h)
		if compute.KindOf(err) == compute.KindNotFound {
			return false
		}
		r.must(err)
		got = slices.Sorted(slices.Values(host.Waiting))
		return slices.Equal(got, want)
	})
}

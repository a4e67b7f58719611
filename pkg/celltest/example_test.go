// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// The example this design comes from: flavors tiny, medium and large with or
// without an exclusive PCI device are 6 queues. A host of 16 GB with one device
// fits the work of all 6; once a tiny with the device is there, on none of those with
// it; once that is deleted, on all 6 again. Without the queue manager, what
// exists goes on placing: the host draws lots once it has not heard of it for a minute.
func TestTheDesignsExample(t *testing.T) {
	t.Parallel()
	const device = compute.ResourceClass("CUSTOM_PCI_DEVICE")
	host := smallHost(1)
	host.Inventory.Reserved = nil
	host.Inventory.Totals = compute.Resources{
		compute.VCPU:     200,
		compute.MemoryMB: 16 << 10,
		compute.DiskGB:   1000,
		device:           1,
	}
	r := newRig(t, kafkatest.Kafka(t), host).up()
	c := r.as("p")
	size := func(name compute.FlavorName, memory int64) compute.Flavor {
		return compute.Flavor{Name: name, Capabilities: []compute.AxisName{"pci"}, Resources: compute.Resources{
			compute.VCPU: 1, compute.MemoryMB: memory, compute.DiskGB: 1,
		}}
	}
	r.offer(
		c,
		[]compute.Capability{
			{
				Axis:   "pci",
				Values: []compute.CapabilityValue{{Value: "exclusive", Consumes: compute.Resources{device: 1}}},
			},
		},
		[]compute.Flavor{size("tiny", 128), size("medium", 4<<10), size("large", 8<<10)},
	)
	plain := []compute.QueueName{"large", "medium", "tiny"}
	all := []compute.QueueName{
		"large",
		"large.pci-exclusive",
		"medium",
		"medium.pci-exclusive",
		"tiny",
		"tiny.pci-exclusive",
	}

	r.fits(c, all)
	taken := r.boot(c, 1, compute.Boot{Flavor: "tiny", With: compute.Choices{"pci": "exclusive"}})
	r.await(taken, compute.StateActive)
	r.fits(c, plain)
	r.delete(c, taken)
	r.await(taken, compute.StateDeleted)
	r.fits(c, all)

	r.stop("queues")
	ids := r.boot(c, 100, compute.Boot{Flavor: "tiny"})
	r.await(ids, compute.StateActive)
	r.exactlyOnce(append(ids, taken...))
}

// fits waits until it is said that the host fits the work of exactly these queues now.
func (r *rig) fits(c *client.Client, want []compute.QueueName) {
	r.t.Helper()
	var got []compute.QueueName
	defer func() {
		if r.t.Failed() {
			r.t.Logf("the host fits %v, want %v", got, want)
		}
	}()
	r.poll("what the host fits", func() bool {
		list, err := c.Queues(r.t.Context(), "")
		r.must(err)
		got = nil
		for _, q := range list {
			if q.Advice != nil && q.Advice.Hosts.Eligible == 1 {
				got = append(got, q.Name)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

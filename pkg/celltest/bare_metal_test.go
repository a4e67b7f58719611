// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/exec"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// metalInventory is one whole server.
const metalInventory = `{"version":1,"totals":{"VCPU":64,"MEMORY_MB":262144,"DISK_GB":1000,"CUSTOM_BAREMETAL":1},` +
	`"traits":["CUSTOM_METAL"]}`

// A flavor that takes a host's one CUSTOM_BAREMETAL has the host alone: the next
// instance waits until the first is deleted.
func TestBareMetal(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b)
		r.startQueues()
		r.startConductor("conductor")
		r.startAPI()
		script, err := filepath.Abs("../../deploy/exec/machines.sh")
		r.must(err)
		dir := t.TempDir()
		r.must(os.WriteFile(filepath.Join(dir, "inventory.json"), []byte(metalInventory), 0o600))
		command := exec.Options{Command: []string{script, dir}}
		metal := func() {
			t.Helper()
			r.start(
				"metal-01",
				cell.ExecAgent(
					r.prepared("agent"),
					cell.AgentOptions{Host: "metal-01", State: r.data, Timing: chatty},
					command,
				),
			)
		}
		t.Cleanup(func() { // of a test that failed
			d, err := exec.Open(context.Background(), command)
			r.must(err)
			list, err := d.List(context.Background())
			r.must(err)
			for _, m := range list {
				r.must(d.Destroy(context.Background(), m.Instance))
			}
		})
		metal()
		r.known(cell.SimulatedHost{ID: "metal-01"})
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{
			{
				Name: "metal.large",
				Resources: compute.Resources{
					compute.VCPU:       64,
					compute.MemoryMB:   262144,
					compute.DiskGB:     1000,
					"CUSTOM_BAREMETAL": 1,
				},
			},
			{Name: "m1.small", Resources: small("").Resources, Forbidden: []compute.Trait{"CUSTOM_METAL"}},
		})

		large := compute.Boot{Flavor: "metal.large", Image: "tiny"}
		first := r.boot(c, 1, large)
		r.await(first, compute.StateActive)
		second := r.boot(c, 1, large)
		other := r.boot(c, 1, compute.Boot{Flavor: "m1.small", Image: "tiny"})
		waits := func(id compute.InstanceID, hosts func(rest.HostCounts) uint32) {
			t.Helper()
			r.poll("the reason why it waits", func() bool {
				inst, err := c.Instance(t.Context(), id)
				r.must(err)
				return inst.State == "queued" && inst.Waiting != nil && inst.Waiting.Hosts != nil &&
					hosts(*inst.Waiting.Hosts) == 1
			})
		}
		waits(second[0], func(n rest.HostCounts) uint32 { return n.Full })
		waits(other[0], func(n rest.HostCounts) uint32 { return n.NeverFits })
		machines := func() []string {
			names, err := filepath.Glob(filepath.Join(dir, "*", "run.*"))
			r.must(err)
			return names
		}
		if got, want := machines(), filepath.Join(dir, string(first[0]), "run.1"); len(got) != 1 || got[0] != want {
			t.Fatalf("there are %v, want %s alone", got, want)
		}
		r.stop("metal-01")
		metal() // the machine does not mind
		r.await(first, compute.StateActive)

		r.delete(c, append(first, other...))
		r.await(append(first, other...), compute.StateDeleted)
		r.await(second, compute.StateActive)
		if got, want := machines(), filepath.Join(dir, string(second[0]), "run.1"); len(got) != 1 || got[0] != want {
			t.Errorf("there are %v, want %s alone", got, want)
		}
		r.delete(c, second)
		r.await(second, compute.StateDeleted)
		if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
			t.Errorf("left besides the inventory: %v %v", left, err)
		}
		r.unused(c)
	})
}

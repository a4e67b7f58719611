// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func savesFor(q compute.QueueName, vcpus int64) func(*Host) {
	return func(h *Host) {
		h.Beacon.Saving = &compute.Saving{
			Queue: q, Needs: compute.Resources{compute.VCPU: vcpus}, Age: time.Minute, Left: 9 * time.Minute,
		}
	}
}

// Large work is told which host saves for it and what is short there, small work that room is saved for others.
func TestSavingsAreTold(t *testing.T) {
	hosts := []Host{host("h1", 1), host("h2", 3, savesFor("m1.large", 8))}
	tell := func(q compute.QueueName, vcpus int64, on compute.HostID) string {
		i := &compute.Instance{
			State: compute.StateQueued, Queue: q, Resources: compute.Resources{compute.VCPU: vcpus},
			Boot: compute.Boot{Host: on},
		}
		return Tell(Facts{Instance: i, Hosts: Hosts(WantedBy(i), hosts), Amounts: true}).Summary
	}
	for _, c := range []struct {
		queue compute.QueueName
		vcpus int64
		want  string
	}{
		{"m1.large", 8, "; host h2 saves room for it since 1m, for 9m at most: 5 processors short"},
		{"m1.small", 2, "; 1 of those that are full saves room for other work that has waited for long"},
		{"m1.small", 1, "1 host can take it now"},
	} {
		if got := tell(c.queue, c.vcpus, ""); !strings.Contains(got, c.want) {
			t.Errorf("%s with %d: %s", c.queue, c.vcpus, got)
		}
	}
	w := Wanted{Queue: "m1.small", Resources: compute.Resources{compute.VCPU: 3}, Host: "h2"}
	if v := Judge(w, hosts[1]); v.Standing != Fits || v.Room != 1 {
		t.Errorf("what is for one host alone: %+v", v)
	}
}

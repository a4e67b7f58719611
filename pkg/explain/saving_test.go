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

// Of the hosts that save for it the one is told that lacks least, and how much only where that may be.
func TestTheNearestSaverIsTold(t *testing.T) {
	takes := func(h *Host) { h.Beacon.Saving.Preempt = true }
	const saves = " saves room for it since 1m, for 9m at most"
	own, other := savesFor("m1.large", 8), savesFor("m1.huge", 8)
	for name, c := range map[string]struct {
		hosts   []Host
		amounts bool
		want    string // what the summary says of savings
	}{
		"least last":  {[]Host{host("h1", 1, own), host("h2", 3, own)}, false, "; host h2" + saves},
		"least first": {[]Host{host("h1", 3, own), host("h2", 1, own)}, false, "; host h1" + saves},
		"machines go": {[]Host{host("h1", 3, own, takes)}, true, "; host h1" + saves +
			", and has preemptible machines taken away for it: 5 processors short"},
		"for others": {[]Host{host("h1", 8, other), host("h2", 8, other)}, true,
			"; 2 of those that are full save room for other work that has waited for long"},
		"a silent one":       {[]Host{host("h1", 1, own, silent)}, true, ""},
		"one can take it":    {[]Host{host("h1", 8, other), host("h2", 8)}, true, ""},
		"none saves for any": {[]Host{host("h1", 1)}, true, ""},
	} {
		i := &compute.Instance{
			State: compute.StateQueued, Queue: "m1.large", Resources: compute.Resources{compute.VCPU: 8},
		}
		got := Tell(Facts{Instance: i, Hosts: Hosts(WantedBy(i), c.hosts), Amounts: c.amounts}).Summary
		if _, says, _ := strings.Cut(got, ";"); strings.TrimPrefix(c.want, ";") != says {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/lab"
)

func TestCentre(t *testing.T) {
	broker := func(x float64) *float64 { return &x }
	before := usage{
		broker: broker(100),
		berth:  10,
		roles: map[lab.Role]float64{
			lab.RoleAPI:       1,
			lab.RoleConductor: 2,
			lab.RoleQueues:    3,
			lab.RoleAgent:     4,
			lab.RoleLoad:      0,
		},
	}
	after := usage{
		broker: broker(104),
		berth:  20,
		roles: map[lab.Role]float64{
			lab.RoleAPI:       1.5,
			lab.RoleConductor: 3,
			lab.RoleQueues:    3.25,
			lab.RoleAgent:     9,
			lab.RoleLoad:      3.25,
		},
	}
	c := after.since(before, 10)
	want := map[lab.Role]float64{
		lab.RoleBroker:    4,
		lab.RoleAPI:       0.5,
		lab.RoleConductor: 1,
		lab.RoleQueues:    0.25,
		lab.RoleAgent:     5,
		lab.RoleLoad:      3.25,
	}
	if diff := cmp.Diff(want, c.Roles); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c.Centre == nil || *c.Centre != 5.75 || c.CentreMS == nil || *c.CentreMS != 575 {
		t.Errorf("centre %v, %v ms a boot; want 5.75 and 575: neither agents nor load are in it", c.Centre, c.CentreMS)
	}
	if c.Berth != 10 || *c.Broker != 4 {
		t.Errorf("%+v", c.Share)
	}
	if c := after.since(before, 0); c.Centre == nil || c.CentreMS != nil {
		t.Errorf("without boots: centre %v, %v ms a boot", c.Centre, c.CentreMS)
	}
	before.broker, after.broker = nil, nil
	if c := after.since(before, 10); c.Centre != nil || c.CentreMS != nil || c.Roles[lab.RoleAgent] != 5 {
		t.Errorf("with a broker that is not known: centre %v, roles %v", c.Centre, c.Roles)
	}
	after.roles = nil
	if c := after.since(before, 10); c.Roles != nil || c.Centre != nil {
		t.Errorf("in one process: centre %v, roles %v", c.Centre, c.Roles)
	}
}

// What is added up stays as it was: it is added up again.
func TestSumOfReports(t *testing.T) {
	one := report{
		CPU: 1, RSS: 2, Connections: 3, Journals: 4, Offering: 5, Denied: 6, Released: 7, Taken: 8,
		Traffic: map[lab.Role]traffic{
			lab.RoleAgent: {APIs: map[string]answered{"Fetch": {1, 2}}, Sent: 3, Received: 4},
		},
		Warnings: map[string]int{"x": 1}, Saving: 2, Savings: map[string]int64{"time": 3},
	}
	want := report{
		CPU: 2, RSS: 4, Connections: 6, Journals: 8, Offering: 10, Denied: 12, Released: 14, Taken: 16,
		Traffic: map[lab.Role]traffic{
			lab.RoleAgent: {APIs: map[string]answered{"Fetch": {2, 4}}, Sent: 6, Received: 8},
		},
		Warnings: map[string]int{"x": 2}, Saving: 4, Savings: map[string]int64{"time": 6},
	}
	for range 2 {
		if diff := cmp.Diff(want, sum(one, one)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestIdle(t *testing.T) {
	fetched := func(n uint64) report {
		return report{Traffic: map[lab.Role]traffic{
			lab.RoleAgent: {
				APIs: map[string]answered{"Fetch": {N: n}, "Produce": {N: 7}},
			},
			lab.RoleAPI: {APIs: map[string]answered{"Fetch": {N: n}}},
		}}
	}
	i := idleBetween(snapshot{all: fetched(10)}, snapshot{all: fetched(50)}, 20, 4)
	want := map[lab.Role]map[string]float64{lab.RoleAgent: {"Fetch": 2}, lab.RoleAPI: {"Fetch": 2}}
	if diff := cmp.Diff(want, i.Requests); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if i.HostRequests != 0.5 {
		t.Errorf("%v requests/s of a host, want 0.5: 40 in 20 s by 4 hosts", i.HostRequests)
	}
}

// A machine that moved from one process's hosts to another's ran on one at a time.
func TestOutcomesAreMergedInOrder(t *testing.T) {
	at := func(second int64, e fake.Event) fake.Event {
		e.At, e.Instance = time.Unix(second, 0), "i"
		return e
	}
	second := outcome{
		Events:   []fake.Event{at(3, fake.Event{Kind: fake.Launched, Host: "b", Attempt: 2})},
		Overfull: []string{"b"},
	}
	first := outcome{Events: []fake.Event{
		at(
			1,
			fake.Event{Kind: fake.Launched, Host: "a", Attempt: 1},
		),
		at(2, fake.Event{Kind: fake.Destroyed, Host: "a", Attempt: 1}),
	}, Overfull: []string{"a"}}
	all := merge(second, first)
	if wrong := fake.Violations(all.Events); len(wrong) > 0 || len(all.Events) != 3 || len(all.Overfull) != 2 {
		t.Errorf("%v, %+v", wrong, all)
	}
}

// A process of agents opens files for its own hosts alone.
func TestEnoughFilesApart(t *testing.T) {
	o := Options{Hosts: 10_000, Kafka: KafkaLocal, Apart: true}.WithDefaults()
	if err := enoughFiles(o, 4000); err != nil {
		t.Errorf("10,000 hosts, 250 a process: %v", err)
	}
	o.HostsEach = 1000
	if err := enoughFiles(o, 4000); err == nil {
		t.Error("1,000 hosts in a process that may open 4,000 files")
	}
	o.HostsEach, o.Kafka = 250, "" // the embedded broker has one end of each connection
	if err := enoughFiles(o, 4000); err == nil {
		t.Error("a broker with 10,000 hosts in a process that may open 4,000 files")
	}
}

// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A tier is made twice only by what may have a queue manager end, or not hear of another one.
func TestRepeats(t *testing.T) {
	high := compute.Boot{Rules: compute.RulesOf("", compute.Set{}, compute.PriorityHigh)}
	ranked, plain := []Load{{Op: LoadBoot, Boot: &high}}, []Load{{Op: LoadBoot, Boot: &compute.Boot{}}}
	for what, x := range map[string]struct {
		load []Load
		f    Fault
		want bool
	}{
		"a manager is killed":            {ranked, Fault{Kind: FaultKill, Who: "queues-1"}, true},
		"a manager misses an answer":     {ranked, Fault{Kind: FaultLose, Who: "queues-1"}, true},
		"there are no tiers":             {plain, Fault{Kind: FaultKill, Who: "queues-1"}, false},
		"a conductor is killed":          {ranked, Fault{Kind: FaultKill, Who: "conductor-1"}, false},
		"a manager goes on, and is well": {ranked, Fault{Kind: FaultForge, Who: "queues-1"}, false},
	} {
		s := Schedule{Load: x.load, Faults: []Fault{x.f}}
		if got := s.Repeats(); got != x.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// What conductors send may be held up by a broker or by their own links, not by what hosts have.
func TestDelaysEffects(t *testing.T) {
	at := func(f Fault) Fault { f.At, f.For = 10, 5; return f }
	for _, c := range []struct {
		fault    Fault
		from, to time.Duration
		want     bool
	}{
		{at(Fault{Kind: FaultLink, Who: "conductor-a"}), 12 * time.Second, 13 * time.Second, true},
		{at(Fault{Kind: FaultLeaderless}), 0, 10 * time.Second, true},
		{at(Fault{Kind: FaultLeaderless}), 0, 9 * time.Second, false},
		{at(Fault{Kind: FaultLeaderless}), 15 * time.Second, time.Minute, true},
		{at(Fault{Kind: FaultLeaderless}), 16 * time.Second, time.Minute, false},
		{at(Fault{Kind: FaultMute, Who: "conductor-a"}), 12 * time.Second, 12 * time.Second, true},
		{at(Fault{Kind: FaultMute, Who: "host-1"}), 12 * time.Second, 12 * time.Second, false},
		{at(Fault{Kind: FaultDeaf, Name: "vm", When: "starting"}), 12 * time.Second, 12 * time.Second, false},
		{at(Fault{Kind: FaultCode, Who: "broker", Key: "Produce"}), 12 * time.Second, 12 * time.Second, true},
		{at(Fault{Kind: FaultCode, Who: "broker", Key: "Heartbeat"}), 12 * time.Second, 12 * time.Second, false},
		{at(Fault{Kind: FaultClone, Who: "host-1"}), 12 * time.Second, 12 * time.Second, false},
	} {
		if got := (Schedule{Faults: []Fault{c.fault}}).DelaysEffects(c.from, c.to); got != c.want {
			t.Errorf("%s from %s to %s: %t", c.fault, c.from, c.to, got)
		}
	}
}

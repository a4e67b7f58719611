// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/verify"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func instance(id string, state compute.State, host compute.HostID) compute.Instance {
	i := compute.Instance{
		ID: compute.InstanceID(id), Project: "p", State: state, Queue: "small",
		Resources: compute.Resources{compute.VCPU: 2},
		Attempt:   1, Host: host, ChangedAt: now.Add(-time.Minute), Deadline: now.Add(time.Hour),
	}
	if host != "" {
		i.Claim = "c"
	}
	return i
}

func record(i compute.Instance) verify.Record {
	return verify.Record{Partition: 1, Key: string(i.Project) + "/" + string(i.ID), Instance: i}
}

func beacon(id compute.HostID, machines, building uint32, free int64) compute.Beacon {
	return compute.Beacon{
		Host: id, Machines: machines, Building: building, At: now.Add(-5 * time.Second),
		Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: 16}},
		Free:      compute.Resources{compute.VCPU: free},
	}
}

// sound is a small cell in which everything is as it should be.
func sound() verify.Facts {
	return verify.Facts{
		Now:  now,
		Home: func(compute.Project) int32 { return 1 },
		Records: []verify.Record{
			record(instance("a", compute.StateActive, "h1")), record(instance("b", compute.StateDeleting, "h1")),
			record(instance("c", compute.StateStarting, "h2")), record(instance("d", compute.StateQueued, "")),
			record(instance("e", compute.StateDeleted, "")),
		},
		Beacons: []compute.Beacon{beacon("h1", 2, 0, 12), beacon("h2", 0, 2, 12)},
		Queues:  []compute.Queue{{Name: "small"}},
		Quotas:  []compute.Quota{{Project: compute.DefaultQuota, Limits: compute.Resources{compute.Instances: 4}}},
	}
}

func TestSound(t *testing.T) {
	tally, found := verify.Compare(sound())
	if len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	want := verify.Tally{
		Instances: 5, Hosts: 2, Projects: 1,
		States: map[string]int{"active": 1, "deleting": 1, "starting": 1, "queued": 1, "deleted": 1},
		Sealed: map[compute.KeyID]int{},
	}
	if diff := cmp.Diff(want, tally); diff != "" {
		t.Error(diff)
	}
}

func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *verify.Facts)
		want   []string // level, about and what it says
	}{
		"unreadable": {func(f *verify.Facts) {
			f.Records[4] = verify.Record{Partition: 3, Key: "p/e", Err: errors.New("no protobuf")}
		},
			[]string{`FAIL partition 3: key "p/e": no protobuf`}},
		"under another key": {func(f *verify.Facts) { f.Records[4].Key = "q/e" },
			[]string{`FAIL instance p/e: under key "q/e" in partition 1`}},
		"in another partition": {func(f *verify.Facts) { f.Records[4].Partition = 0 },
			[]string{`FAIL instance p/e: under key "p/e" in partition 0`}},
		"no claim": {func(f *verify.Facts) { f.Records[0].Instance.Claim = "" },
			[]string{"FAIL instance p/a: active without a host and its claim"}},
		"no reason": {func(f *verify.Facts) { f.Records[4].Instance.State = compute.StateError },
			[]string{"FAIL instance p/e: error without a reason"}},
		"no queue": {func(f *verify.Facts) { f.Queues = nil },
			[]string{"warn instance p/d: queued in small"}},
		"deadline passed": {func(f *verify.Facts) { f.Records[3].Instance.Deadline = now.Add(-time.Hour) },
			[]string{"FAIL instance p/d: queued until 2026-11-21T11:00:00Z"}},
		"deadline just passed": {func(f *verify.Facts) { f.Records[3].Instance.Deadline = now.Add(-time.Second) }, nil},
		"stuck": {func(f *verify.Facts) { f.Records[1].Instance.ChangedAt = now.Add(-time.Hour) },
			[]string{"FAIL instance p/b: deleting for 1h0m0s on h1, which is heard"}},
		"long active": {func(f *verify.Facts) { f.Records[0].Instance.ChangedAt = now.Add(-time.Hour) }, nil},
		"silent": {func(f *verify.Facts) {
			f.Records[1].Instance.ChangedAt, f.Beacons[0].At = now.Add(-time.Hour), now.Add(-2*time.Minute)
		}, []string{"warn host h1: silent for 2m0s"}},
		"silent and empty": {func(f *verify.Facts) {
			f.Beacons = append(f.Beacons, compute.Beacon{Host: "h3", At: now.Add(-time.Hour)})
		}, nil},
		"never heard": {func(f *verify.Facts) { f.Beacons = f.Beacons[:1] },
			[]string{"FAIL host h2: never heard of, or forgotten"}},
		"destroyed, and the log does not know yet": {func(f *verify.Facts) {
			f.Beacons[0].Machines, f.Beacons[0].Free[compute.VCPU] = 1, 14
		}, nil},
		"lost": {func(f *verify.Facts) { f.Beacons[0].Machines, f.Beacons[0].Free[compute.VCPU] = 0, 16 },
			[]string{"FAIL host h1: 0 machines and 0 builds"}},
		"stray": {func(f *verify.Facts) { f.Beacons[0].Machines, f.Beacons[0].Free[compute.VCPU] = 3, 10 },
			[]string{"FAIL host h1: 3 machines"}},
		"too much offered": {func(f *verify.Facts) { f.Beacons[0].Free[compute.VCPU] = 13 },
			[]string{"FAIL host h1: VCPU 13 free"}},
		"too small by now": {func(f *verify.Facts) {
			f.Beacons[0].Inventory.Totals[compute.VCPU], f.Beacons[0].Free[compute.VCPU] = 3, 0
		},
			[]string{"warn host h1: VCPU 1 too little"}},
		"above its limit": {func(f *verify.Facts) {
			f.Quotas = append(f.Quotas, compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: 7}})
		}, []string{"warn project p: 8 VCPU"}},
		"above the default": {func(f *verify.Facts) { f.Quotas[0].Limits[compute.Instances] = 3 },
			[]string{"warn project p: 4 INSTANCES"}},
		"another's limit": {func(f *verify.Facts) {
			f.Quotas = append(f.Quotas, compute.Quota{Project: "q", Limits: compute.Resources{compute.VCPU: 1}})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.change(&f)
			_, found := verify.Compare(f)
			var got []string
			for _, d := range found {
				got = append(got, string(d.Level)+" "+d.About+": "+d.Says)
				if d.Want == "" || d.Why == "" || d.Fix == "" {
					t.Errorf("%+v explains nothing", d)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if want := !strings.Contains(strings.Join(c.want, " "), "FAIL"); verify.Sound(found) != want {
				t.Errorf("sound: %v", !want)
			}
		})
	}
}

// Of a placeholder and the machine that has its room, one has resources there; both are counted.
func TestTakenRoom(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p, taker *compute.Instance)
		free   int64
		want   string
	}{
		"taken":               {func(*compute.Instance, *compute.Instance) {}, 14, ""},
		"not in its room yet": {func(_, taker *compute.Instance) { taker.State, taker.Host = compute.StateQueued, "" }, 14, ""},
		"of before":           {func(p, _ *compute.Instance) { p.Attempt = 2 }, 14, "VCPU 14 free"},
		"in both rooms":       {func(p, _ *compute.Instance) { p.Attempt = 2 }, 12, ""},
		"to be given up": {func(p, taker *compute.Instance) {
			p.State = compute.StateDeleting
			taker.Boot.Takes(compute.InPlaceholder{})
		}, 14, ""},
		"to be given up, its taker is elsewhere": {func(p, taker *compute.Instance) {
			p.State, taker.State, taker.Host = compute.StateDeleting, compute.StateDeleted, ""
			taker.Boot.Takes(compute.InPlaceholder{})
		}, 16, "VCPU 16 free"},
		"of another project": {func(_, taker *compute.Instance) { taker.Project = "q" }, 14, "VCPU 14 free"},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			p, taker := instance("pa", compute.StateActive, "h9"), instance("ta", compute.StateActive, "h9")
			p.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 1, Taker: taker.ID})
			taker.Boot.Takes(compute.InPlaceholder{ID: p.ID, Attempt: 1})
			c.change(&p, &taker)
			machines := uint32(1)
			if taker.Host != "" {
				machines++
			}
			f.Records = append(f.Records, record(p), record(taker))
			f.Beacons = append(f.Beacons, beacon("h9", machines, 0, c.free))
			_, found := verify.Compare(f)
			var says string
			for _, d := range found {
				if d.Host == "h9" {
					says += d.Says
				}
			}
			if says != c.want {
				t.Errorf("%+v", found)
			}
		})
	}
}

// Keys of user data are counted while an instance may need them, and one that no host has is said.
func TestKeysOfUserData(t *testing.T) {
	ours, lost := sealed.New("", hostkey.NewMaster([32]byte{1})), sealed.New("", hostkey.NewMaster([32]byte{2}))
	f := sound()
	for n, keys := range []*sealed.Keys{ours, lost, lost, nil, ours} { // the last one has ended
		i := &f.Records[n].Instance
		if keys == nil {
			continue
		}
		s, err := keys.Seal(sealed.Owner{Project: i.Project, Instance: i.ID}, []byte("data"))
		if err != nil {
			t.Fatal(err)
		}
		i.Boot.Sealed = s
	}
	f.Beacons[1].Opens = ours.IDs()
	tally, found := verify.Compare(f)
	if diff := cmp.Diff(map[compute.KeyID]int{ours.IDs()[0]: 1, lost.IDs()[0]: 2}, tally.Sealed); diff != "" {
		t.Error(diff)
	}
	if len(found) != 1 || found[0].About != "user data under key "+string(lost.IDs()[0]) || !verify.Sound(found) {
		t.Errorf("%+v", found)
	}
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestQueues(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.has(instance(id1, "a", compute.StateQueued), instance(id2, "b", compute.StateStarting))
	n.Advice([]wire.Record{wire.EncodeAdvice(compute.Advice{At: start, About: []compute.QueueAdvice{{
		Queue: "m1.small", Depth: 20, Stray: 16, Oldest: start.Add(-time.Minute), Eligible: 2,
		Hosts: compute.HostCounts{Eligible: 2, Avoided: 3, Full: 1},
	}}})}, true)
	for h, free := range map[compute.HostID]int64{"h1": 8, "h2": 1, "h3": 1, "h4": 1, "h5": 0} {
		n.hears(offering(h, free))
	}
	want := rest.QueueView{
		Hosts:    &rest.HostCounts{Total: 5, Eligible: 1, Avoided: 3, Full: 1},
		Capacity: &rest.Capacity{Room: 11, Empty: 40},
		Name:     "m1.small", Flavor: "m1.small", State: "open", Group: "agents-0", Queued: 1,
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2048, compute.DiskGB: 20},
		Advice: &rest.QueueAdvice{
			At: start, Depth: 4, Stray: 16, Oldest: start.Add(-time.Minute), Wanted: 28,
			Hosts: rest.HostCounts{Total: 6, Eligible: 2, Avoided: 3, Full: 1},
		},
	}
	equal(t, "shown", want, into[rest.QueueView](n.do("GET", "/v1/queues/m1.small", nil), 200))
	list := into[rest.Queues](n.do("GET", "/v1/queues", nil), 200)
	if len(list.Items) != 3 || list.Items[2].Name != "m1.small.gpu-h100" || list.Items[2].Advice != nil {
		t.Errorf("listed %+v", list)
	}
	if list := into[rest.Queues](n.do("GET", "/v1/queues?flavor=none", nil), 200); list.Items == nil ||
		len(list.Items) != 0 {
		t.Errorf("another flavor's: %+v", list)
	}
	q := compute.Queue{Name: "m1.small.gpu-h100", Flavor: "m1.small", Error: "no room for its topic"}
	n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
	busy := into[rest.Queues](n.do("GET", "/v1/queues?waiting=true&limit=2", nil), 200)
	if len(busy.Items) != 2 || busy.Items[0].Name != "m1.small" || busy.Items[1].Name != q.Name || busy.Next != "" {
		t.Errorf("with work or an error: %+v", busy)
	}
	if page := into[rest.Queues](n.do("GET", "/v1/queues?waiting=true&limit=1", nil), 200); page.Next != "m1.small" {
		t.Errorf("the first of them: %+v", page)
	}
	n.do("GET", "/v1/queues/m9", nil).refused(404, compute.KindNotFound)
	if n.Work("m1.small") != 2 || n.Work("m1.small.gpu-a100") != 0 {
		t.Errorf("work: %d and %d", n.Work("m1.small"), n.Work("m1.small.gpu-a100"))
	}
}

func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.hears(compute.Beacon{
			Host: "h2", State: compute.HostQuarantined, Reason: "3 failed starts", Machines: 2, Building: 1,
			DesiredSeen: 9,
			Inventory: compute.Inventory{
				Totals: compute.Resources{compute.VCPU: 8}, Reserved: compute.Resources{compute.VCPU: 1},
				Traits: []compute.Trait{"CUSTOM_GPU"},
			},
			Free: compute.Resources{compute.VCPU: 5}, Waiting: []compute.QueueName{"m1.small"}, At: start,
			Started: start,
		})
		time.Sleep(2 * time.Second)
		n.hears(compute.Beacon{Host: "h1", At: start})
		want := rest.HostView{
			Host: "h2", State: "quarantined", Reason: "3 failed starts", Machines: 2, Building: 1, DesiredSeen: 9,
			Totals: compute.Resources{compute.VCPU: 8}, Reserved: compute.Resources{compute.VCPU: 1},
			Free:   compute.Resources{compute.VCPU: 5},
			Traits: []compute.Trait{"CUSTOM_GPU"}, Waiting: []compute.QueueName{"m1.small"},
			Weigher: "spread", SaidAt: start, Started: start, HeardFor: rest.Duration(2 * time.Second),
		}
		equal(t, "shown", want, into[rest.HostView](n.do("GET", "/v1/hosts/h2", nil), 200))
		list := into[rest.Hosts](n.do("GET", "/v1/hosts", nil), 200)
		if len(list.Items) != 2 || list.Items[0].Host != "h1" {
			t.Errorf("listed %+v", list)
		}
		signed := wire.EncodeBeacon(compute.Beacon{Host: "h1", At: start})
		signed.Headers = append(signed.Headers, wire.Header{Key: wire.HeaderMAC, Value: []byte{1}})
		n.Hosts([]wire.Record{signed}, true)
		if !into[rest.HostView](n.do("GET", "/v1/hosts/h1", nil), 200).Signed {
			t.Error("it is not shown that a host signs")
		}
		n.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("h1"))}, true)
		n.do("GET", "/v1/hosts/h1", nil).refused(404, compute.KindNotFound)
	})
}

// A host that is being emptied shows until when.
func TestDrainingHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		by := time.Now().Add(time.Hour).UTC()
		n.hears(compute.Beacon{Host: "h1", State: compute.HostDraining, Deadline: by, Machines: 1})
		n.hears(compute.Beacon{Host: "h2"})
		if got := into[rest.HostView](n.do("GET", "/v1/hosts/h1", nil), 200); !got.Deadline.Equal(by) {
			t.Errorf("the deadline is %s, want %s", got.Deadline, by)
		}
		if a := n.do("GET", "/v1/hosts/h2", nil); strings.Contains(string(a.body), "deadline") {
			t.Errorf("a host without a deadline shows one: %s", a.body)
		}
	})
}

// A host's instances are those of all projects that may have a machine there.
func TestHostInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.hears(compute.Beacon{Host: "h1"})
		n.hears(compute.Beacon{Host: "h2"})
		of := func(id compute.InstanceID, p compute.Project, h compute.HostID, s compute.State) compute.Instance {
			i := instance(id, string(p), s)
			i.Project, i.Host = p, h
			return i
		}
		pinned := of("44444444-4444-4444-8444-444444444444", "a", "", compute.StateQueued)
		pinned.Boot.Host = "h1"
		n.has(of(id1, "a", "h1", compute.StateActive), of(id2, "b", "h1", compute.StateDeleting),
			of(id3, "a", "h1", compute.StateDeleted), pinned)
		listed := map[compute.HostID]map[string]int{}
		for _, h := range into[rest.Hosts](n.do("GET", "/v1/hosts", nil), 200).Items {
			listed[h.Host] = h.Instances
		}
		equal(t, "counted", map[compute.HostID]map[string]int{"h1": {"active": 1, "deleting": 1}, "h2": nil}, listed)
		marker, seen := "", []compute.Project{}
		for range 2 {
			page := into[rest.Instances](n.do("GET", "/v1/hosts/h1/instances?limit=1&marker="+marker, nil), 200)
			for _, i := range page.Items {
				seen = append(seen, i.Project)
			}
			marker = page.Next
		}
		if !slices.Equal(seen, []compute.Project{"a", "b"}) || marker != "" {
			t.Errorf("page by page %v, and then %q", seen, marker)
		}
		if page := into[rest.Instances](n.do("GET", "/v1/hosts/h2/instances", nil), 200); page.Items == nil ||
			len(page.Items) != 0 {
			t.Errorf("h2 has %+v", page)
		}
		n.do("GET", "/v1/hosts/h9/instances", nil).refused(404, compute.KindNotFound)
		if p := n.do("GET", "/v1/hosts/h1/instances?marker=x", nil).refused(422,
			compute.KindInvalid); p.Field != "marker" {
			t.Errorf("refused for field %q", p.Field)
		}
	})
}

func TestAskHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		future := compute.Version(time.Now().UnixMilli() + 3_600_000)
		n.hears(compute.Beacon{Host: "h1"})
		n.hears(compute.Beacon{Host: "fast", DesiredSeen: future})
		for verb, state := range map[string]compute.HostState{
			"drain": compute.HostDraining, "disable": compute.HostDisabled, "enable": compute.HostEnabled,
		} {
			got := into[rest.HostAsked](n.do("POST", "/v1/hosts/h1/"+verb, rest.HostWish{Reason: "disk"}), 202)
			recs := n.published()
			if len(recs) != 1 || recs[0].Topic != "test.host.h1" || recs[0].Partition != 0 {
				t.Fatalf("%s: published %+v", verb, recs)
			}
			cmd, err := wire.DecodeCommand(recs[0])
			if err != nil || cmd.Op != compute.CommandHost {
				t.Fatalf("%s: %+v, %v", verb, cmd, err)
			}
			want := compute.HostDesired{State: state, Reason: "disk", Version: compute.Version(time.Now().UnixMilli())}
			equal(t, verb, want, *cmd.Desired)
			equal(t, verb+" answered", rest.HostAsked{Host: "h1", State: state.String(), Version: want.Version}, got)
		}
		by := time.Now().Add(time.Hour).UTC()
		into[rest.HostAsked](n.do("POST", "/v1/hosts/h1/drain", rest.HostWish{Deadline: by}), 202)
		if cmd, _ := wire.DecodeCommand(n.published()[0]); !cmd.Desired.Deadline.Equal(by) {
			t.Errorf("deadline %s", cmd.Desired.Deadline)
		}
		if got := into[rest.HostAsked](n.do("POST", "/v1/hosts/fast/enable", nil), 202); got.Version <= future {
			t.Errorf("a newer wish has version %d, the host has seen %d", got.Version, future)
		}
		n.published()
		for _, bad := range []struct {
			verb, field string
			body        any
		}{
			{"drain", "deadline", rest.HostWish{Deadline: time.Now().Add(-time.Second)}},
			{"drain", "deadline", rest.HostWish{Deadline: time.Now()}},
			{"enable", "deadline", rest.HostWish{Deadline: by}},
			{"disable", "deadline", rest.HostWish{Deadline: by}},
			{"drain", "deadline", map[string]any{"deadline": "10m"}},
			{"drain", "deadline", map[string]any{"deadline": 600}},
			{"drain", "reason", map[string]any{"reason": strings.Repeat("x", 256)}},
		} {
			p := n.do("POST", "/v1/hosts/h1/"+bad.verb, bad.body).refused(422, compute.KindInvalid)
			if p.Field != bad.field {
				t.Errorf("%s %+v: refused for field %q: %s", bad.verb, bad.body, p.Field, p.Detail)
			}
		}
		if recs := n.published(); len(recs) != 0 {
			t.Errorf("what was refused is published: %+v", recs)
		}
		n.do("POST", "/v1/hosts/h9/drain", nil).refused(404, compute.KindNotFound)
		n.do("POST", "/v1/hosts/h1/explode", nil).refused(404, compute.KindNotFound)
		n.fail = wire.ErrNoTopic
		n.do("POST", "/v1/hosts/h1/drain", nil).refused(503, compute.KindUnavailable)
		n.fail = errors.New("no leader")
		n.do("POST", "/v1/hosts/h1/drain", nil).refused(504, compute.KindTimeout)
	})
}

// What operators want of a host by nodes whose clocks differ is ordered by the time of
// the log that all of them read, as long as the host is heard.
func TestWishesAreOrderedByTheLog(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.config.Now = func() time.Time { return time.Now().Add(off) }
			n.hears(compute.Beacon{Host: "h1", At: time.Now()})
			time.Sleep(10 * time.Second)
			wished := func() compute.Version {
				return into[rest.HostAsked](n.do("POST", "/v1/hosts/h1/disable", nil), 202).Version
			}
			if got, want := wished(), compute.Version(time.Now().UnixMilli()); got != want {
				t.Errorf("a clock that is %s off: version %d, want %d", off, got, want)
			}
			time.Sleep(compute.SilentAfter)
			if got, want := wished(), compute.Version(n.config.Now().UnixMilli()); got != want {
				t.Errorf("of a silent host, by a clock that is %s off: version %d, want %d", off, got, want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// ringing is the beacon of a host whose agent knows rings.
func ringing(host string, vcpus int64) wire.Record {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 4}}
	free := compute.Resources{compute.VCPU: vcpus}
	return wire.EncodeBeacon(compute.Beacon{Host: compute.HostID(host), Inventory: inv, Free: free, Rings: true})
}

// rung are the looks that each host was sent since the last time asked.
func (f *far) rung(t *testing.T, hosts ...compute.HostID) map[compute.HostID][]compute.Look {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[compute.HostID][]compute.Look{}
	for _, h := range hosts {
		for _, rec := range f.logs[names.Host(h)] {
			c, err := wire.DecodeCommand(rec)
			if err != nil || c.Op != compute.CommandLook || c.At.IsZero() {
				t.Fatalf("%s is told %+v: %v", h, c, err)
			}
			out[h] = append(out[h], *c.Look)
		}
		delete(f.logs, names.Host(h))
	}
	return out
}

// expectRung compares, for hosts that are rung for one queue.
func (f *far) expectRung(t *testing.T, want map[compute.HostID]int) {
	t.Helper()
	got := map[compute.HostID]int{}
	for h, looks := range f.rung(t, "h1", "h2", "h3", "h4") {
		got[h] = len(looks)
		if slices.ContainsFunc(looks, func(l compute.Look) bool { return l.Queue != "x" || l.Hold != 0 }) {
			t.Errorf("%s is told %+v", h, looks)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("who was rung (-want +got): %s", diff)
	}
}

// Work that comes has hosts rung that fit, are reached and know rings: each once.
func TestWorkRingsHosts(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "host" && c.name == "h4" {
				return fault{refuse: errors.New("no")}
			}
			return fault{}
		}
		f.mu.Unlock()
		f.publish(names.Hosts(), ringing("h1", 4), beacon("h2", 4), ringing("h3", 0), ringing("h4", 4))
		f.publish(names.Catalog(), flavor("x"))
		settle(5 * time.Second)
		f.expectRung(t, map[compute.HostID]int{})
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued))
		settle(0)
		f.expectRung(t, map[compute.HostID]int{"h1": 1}) // h2 knows no rings, h3 is full, h4 is not reached
		f.publish(names.Instances(), instance(1, "x", compute.StateStarting))
		settle(time.Minute)
		f.expectRung(t, map[compute.HostID]int{})
	})
}

// A host that has room again is rung for what waits, and so is one whose stream is made.
func TestAHostThatCanBeRungNowIsRung(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "host" && c.name == "h2" {
				return fault{refuse: errors.New("no")}
			}
			return fault{}
		}
		f.mu.Unlock()
		f.publish(names.Hosts(), ringing("h1", 0), ringing("h2", 4))
		f.publish(names.Catalog(), flavor("x"))
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued))
		settle(50 * time.Second) // it is seldom looked at by now
		f.expectRung(t, map[compute.HostID]int{})
		f.publish(names.Hosts(), ringing("h1", 4))
		settle(300 * time.Millisecond)
		f.expectRung(t, map[compute.HostID]int{"h1": 1})
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		for f.streams()["h2"] == 0 {
			f.publish(names.Hosts(), ringing("h2", 4))
			settle(100 * time.Millisecond)
		}
		f.rung(t, "h1")
		settle(250 * time.Millisecond)
		if got := f.rung(t, "h2"); len(got["h2"]) != 1 {
			t.Errorf("it was rung %v", got)
		}
	})
}

// Hosts that were rung and took other work make room for another, which is rung before their rings count no more.
func TestAnotherIsRungForHostsThatAreFull(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Hosts(), ringing("h1", 4), ringing("h2", 4), ringing("h3", 4))
		f.publish(names.Catalog(), flavor("x"))
		settle(5 * time.Second)
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued))
		settle(0)
		want := map[compute.HostID]int{"h1": 1, "h2": 1, "h3": 1}
		first := f.rung(t, "h1", "h2", "h3")
		for h := range first {
			delete(want, h)
			f.publish(names.Hosts(), ringing(string(h), 0))
		}
		if len(first) != 2 {
			t.Fatalf("at first %v are rung", first)
		}
		settle(300 * time.Millisecond)
		f.expectRung(t, want)
	})
}

// Work that backs off is rung for when it is published, and work of a conductor whose clock
// is ahead at once.
func TestWorkIsRungForWhenItIsPublished(t *testing.T) {
	backsOff := func(i *compute.Instance) { i.PublishAt = time.Now().Add(10 * time.Second) }
	ahead := func(i *compute.Instance) { i.QueuedAt = time.Now().Add(time.Hour) }
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Hosts(), ringing("h1", 4))
		f.publish(names.Catalog(), flavor("x"))
		settle(5 * time.Second)
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued, backsOff))
		settle(9900 * time.Millisecond)
		f.expectRung(t, map[compute.HostID]int{})
		settle(100 * time.Millisecond)
		f.expectRung(t, map[compute.HostID]int{"h1": 1})
		f.publish(names.Instances(), instance(1, "x", compute.StateDeleted))
		settle(time.Minute)
		f.rung(t, "h1")
		f.publish(names.Hosts(), ringing("h1", 4)) // or it is silent
		f.publish(names.Instances(), instance(2, "x", compute.StateQueued, ahead))
		settle(0)
		f.expectRung(t, map[compute.HostID]int{"h1": 1})
	})
}

// A manager that stands by rings nobody; elected, it rings hosts for what waits.
func TestAnElectedManagerRingsForWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		a, b := f.join(t, "a"), f.join(t, "b")
		var mu sync.Mutex
		by := map[string]int{}
		f.fault = func(c call) fault {
			if c.op == "write" && c.name == "" { // records without a key: commands
				mu.Lock()
				defer mu.Unlock()
				by[c.who]++
			}
			return fault{}
		}
		f.publish(names.Hosts(), ringing("h1", 4))
		f.publish(names.Catalog(), flavor("x"))
		a.elected <- true
		settle(5 * time.Second)
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued))
		settle(time.Minute)
		f.rung(t, "h1")
		mu.Lock()
		if by["a"] == 0 || by["b"] != 0 {
			t.Errorf("a is active, and rang is %v", by)
		}
		clear(by)
		mu.Unlock()
		a.elected <- false
		settle(time.Minute)
		f.expectRung(t, map[compute.HostID]int{})  // nobody is active
		f.publish(names.Hosts(), ringing("h1", 4)) // or it is silent
		b.elected <- true
		settle(time.Second)
		if got := f.rung(t, "h1"); len(got["h1"]) == 0 {
			t.Error("the newly elected one rings nobody")
		}
		mu.Lock()
		if by["a"] != 0 || by["b"] == 0 {
			t.Errorf("b is active, and rang is %v", by)
		}
		mu.Unlock()
		settle(20 * time.Second) // what it rang in vain counts for long by now
		f.rung(t, "h1")
		b.elected <- false
		settle(0)
		b.elected <- true
		settle(100 * time.Millisecond)
		f.expectRung(t, map[compute.HostID]int{"h1": 1})
	})
}

// Elected among thousands of hosts, it rings those whose streams are there before it has made sure of all.
func TestAnElectedManagerRingsBeforeItHasMadeStreams(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		a, b := f.join(t, "a"), f.join(t, "b")
		f.publish(names.Hosts(), ringing("h1", 4))
		f.publish(names.Catalog(), flavor("x"))
		a.elected <- true
		settle(5 * time.Second)
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued))
		settle(time.Minute)
		f.rung(t, "h1")
		a.elected <- false
		settle(0)
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "host" {
				return fault{mode: before} // it takes long
			}
			return fault{}
		}
		f.mu.Unlock()
		f.publish(names.Hosts(), ringing("h1", 4)) // or it is silent
		b.elected <- true
		settle(time.Second)
		if got := f.rung(t, "h1"); len(got["h1"]) == 0 {
			t.Error("the newly elected one rings nobody")
		}
	})
}

// A host whose stream has no leader is not rung, and all others are.
func TestAHostWithoutALeaderHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Hosts(), ringing("h1", 4), ringing("h2", 4))
		f.publish(names.Catalog(), flavor("x"))
		settle(5 * time.Second)
		f.mu.Lock()
		f.leaderless = names.Host("h1")
		f.mu.Unlock()
		for i := range 100 {
			f.publish(names.Instances(), instance(i, "x", compute.StateQueued))
			settle(0)
			f.expectRung(t, map[compute.HostID]int{"h2": 1})
			f.publish(names.Instances(), instance(i, "x", compute.StateStarting))
			settle(10 * time.Millisecond)
		}
	})
}

// A manager that is elected while what it lists by has no leader makes no queue, gives no advice and tells no agent
// that it is alone, but rings hosts.
func TestHostsAreRungThoughAPartitionHasNoLeader(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		a := f.join(t, "a")
		a.elected <- true
		f.publish(names.Hosts(), ringing("h1", 4))
		f.publish(names.Catalog(), flavor("x"))
		settle(5 * time.Second)
		a.elected <- false
		settle(0)
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "sync" || c.op == "sync lists" {
				return fault{refuse: errors.New("no leader")}
			}
			return fault{}
		}
		f.mu.Unlock()
		f.changes()
		told := len(f.advice(t))
		a.elected <- true
		f.publish(names.Catalog(), flavor("y"))
		f.publish(names.Hosts(), asks("h1", compute.Voice{Journal: "a", Started: time.Now().UTC()}))
		f.publish(names.Hosts(), ringing("h1", 4))
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued))
		settle(5 * time.Second)
		if got := f.rung(t, "h1")["h1"]; len(got) == 0 || len(f.advice(t)) != told {
			t.Errorf("rung is %v, and there is advice %d times", got, len(f.advice(t))-told)
		}
		for _, did := range f.changes() {
			if did != "write " { // rings have no key
				t.Errorf("it did %q", did)
			}
		}
	})
}

// A broker that does not answer holds up nothing but rings: those are dropped when too
// many are under way, and later ones arrive.
func TestRingsThatDoNotArrive(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Hosts(), ringing("h1", 4))
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		settle(5 * time.Second)
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "write" && c.name == "" {
				return fault{mode: before}
			}
			return fault{}
		}
		f.mu.Unlock()
		for i := range 2 * mostToHost {
			f.publish(names.Instances(), instance(i, "x", compute.StateQueued))
			settle(time.Millisecond)
			f.publish(names.Instances(), instance(i, "x", compute.StateStarting))
			settle(time.Millisecond)
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		f.rung(t, "h1")
		settle(time.Minute)
		f.rung(t, "h1")
		f.publish(names.Hosts(), ringing("h1", 4)) // or it is silent
		f.publish(names.Instances(), instance(99, "y", compute.StateQueued))
		settle(0)
		if got := f.rung(t, "h1"); len(got["h1"]) != 1 {
			t.Errorf("rung is %v", got)
		}
	})
}

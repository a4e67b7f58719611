// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Whatever the active manager was doing when it was lost, and whether that was
// done, never arrived or arrives late: the other one ends in the same state,
// with no rule broken.
func TestTakeoverInTheMiddleOfEverything(t *testing.T) {
	for mode, name := range map[faultMode]string{before: "never arrives", after: "done", late: "arrives late"} {
		t.Run(name, func(t *testing.T) {
			n := 1
			for takeover(t, mode, n) {
				n++
			}
			if n < 20 {
				t.Errorf("only %d calls could be interrupted", n)
			}
		})
	}
}

// takeover interrupts the n-th call of a story in which every step happens. It
// says whether the story has so many calls.
func takeover(t *testing.T, mode faultMode, n int) (happened bool) {
	bubble(t, func(t *testing.T, f *far) {
		small := func(o *Options) { o.PerGroup = 2 }
		a, b := f.join(t, "a", small), f.join(t, "b", small)
		cut := ""
		f.fault = func(c call) fault {
			if c.who == "a" && cut != "" {
				return fault{refuse: errors.New("cut off")}
			}
			if c.who == "a" && c.n == n {
				cut = c.op + " " + c.name
				return fault{mode: mode, hook: func() { a.elected <- false; b.elected <- true }}
			}
			return fault{}
		}
		a.elected <- true
		f.publish(names.Catalog(), axis("gpu", "a100"), flavor("old", "gpu"), flavor("kept"))
		settle(20 * time.Second)
		f.publish(names.Instances(), instance(1, "old", compute.StateQueued))
		f.publish(names.Hosts(), beacon("h1", 4))
		f.publish(names.Catalog(), noFlavor("old"), flavor("new"))
		settle(20 * time.Second)
		f.publish(names.Instances(), instance(1, "old", compute.StateActive))
		settle(2 * time.Minute)
		f.has(t, "kept", "new")
		if f.streams()["h1"] == 0 {
			t.Error("the host has no stream")
		}
		f.changes()
		settle(5 * time.Minute)
		// A manager elected only now makes the host's stream again: no harm.
		if got := slices.DeleteFunc(f.changes(), func(s string) bool { return s == "host h1" }); len(got) > 0 {
			t.Errorf("not quiet: %v", got)
		}
		if happened = cut != ""; happened && t.Failed() {
			t.Logf("call %d was %s", n, cut)
		}
	})
	return happened && !t.Failed()
}

// Elected, not elected, elected again without a word in between: one term at a
// time, and none after the last no.
func TestTermsDoNotOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		for range 3 {
			m.elected <- true
			synctest.Wait()
		}
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Minute)
		f.has(t, "x")
		m.elected <- false
		settle(time.Second)
		f.mu.Lock()
		before := f.calls
		f.mu.Unlock()
		f.publish(names.Catalog(), flavor("y"))
		settle(10 * time.Minute)
		f.mu.Lock()
		if f.calls != before {
			t.Errorf("%d calls while not elected", f.calls-before)
		}
		f.mu.Unlock()
		close(m.elected)
		settle(time.Minute)
	})
}

func TestNothingIsDoneBeforeAllWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFar()
		f.topics["x"] = &topic{id: "1"} // nobody wants it, as far as is known
		m := &member{far: f, name: "a", elected: make(chan bool, 1), read: map[string]int{}}
		m.Manager = New(Options{Topics: names, Leader: m, View: m, Log: m, Far: Far{Topics: m, Hosts: m, Shares: m}})
		m.elected <- true
		done := make(chan error, 1)
		go func() { done <- m.Run(t.Context()) }()
		m.Queues(nil, true)
		m.Hosts(nil, true)
		m.Instances(nil, true)
		m.Catalog([]wire.Record{axis("gpu", "a100")}, false)
		settle(time.Minute)
		if len(f.changes()) > 0 || f.topic("x") == nil {
			t.Fatal("worked on half of what there is")
		}
		m.Catalog([]wire.Record{flavor("x")}, true)
		<-m.Ready()
	})
}

// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// What goes through open queues is no reason to look at all topics.
func TestBootsDoNotMakeItLook(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Second)
		f.mu.Lock()
		f.done = nil
		f.mu.Unlock()
		for i := range 100 {
			f.publish(names.Instances(), instance(i, "x", compute.StateQueued))
			settle(100 * time.Millisecond)
			f.publish(names.Instances(), instance(i, "x", compute.StateStarting), instance(i, "x", compute.StateActive))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(slices.DeleteFunc(f.done, func(s string) bool { return s != "topics " })); n > 1 {
			t.Errorf("looked %d times in 10 s", n)
		}
	})
}

// A topic just made may not be known everywhere yet: look again, calmly.
func TestBrokersThatHearLate(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		f.unheard = true
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(3 * time.Second)
		f.mu.Lock()
		if f.calls > 100 {
			t.Errorf("%d calls in 3 seconds", f.calls)
		}
		f.unheard = false
		f.mu.Unlock()
		settle(time.Second)
		f.has(t, "x")
	})
}

// An initialisation without an answer may still be at work: it is not asked for
// again before it has arrived or died.
func TestAnInitialisationWithoutAnAnswer(t *testing.T) {
	for mode, name := range map[faultMode]string{before: "never arrives", after: "done", late: "arrives late"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				lost := false
				f.fault = func(c call) fault {
					if c.op == "init" && !lost {
						lost = true
						return fault{mode: mode}
					}
					return fault{}
				}
				m := f.join(t, "a", func(o *Options) { o.StepTimeout = 2 * time.Second })
				m.elected <- true
				f.publish(names.Catalog(), flavor("x"))
				settle(time.Minute)
				f.has(t, "x")
			})
		})
	}
}

// Brokers that have not heard of a new topic answer for the one before it.
func TestShareStateOfAnotherTopicSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		f.stale = true
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Minute)
		for _, d := range f.changes() {
			if strings.HasPrefix(d, "init") {
				t.Error("initialised without knowing whether it was")
			}
		}
		f.mu.Lock()
		f.stale = false
		f.mu.Unlock()
		settle(2 * time.Minute)
		f.has(t, "x")
	})
}

func TestATopicStaysWhileItIsListed(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Second)
		f.publish(names.Catalog(), noFlavor("x"))
		settle(time.Second)
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "write" {
				return fault{refuse: errors.New("no")}
			}
			return fault{}
		}
		f.mu.Unlock()
		settle(5 * time.Minute)
		if f.topic("x") == nil {
			t.Fatal("topic deleted, its record is still there")
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		settle(2 * time.Minute)
		f.has(t)
	})
}

// A manager that is elected again does not count on what it told the time before.
func TestEachTermBeginsWithAdviceInFull(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Catalog(), flavor("x"))
		m.elected <- true
		settle(2 * time.Second)
		m.elected <- false
		settle(2 * time.Second)
		n := len(f.advice(t))
		m.elected <- true
		settle(2 * time.Second)
		if news := f.advice(t)[n:]; len(news) != 1 || !news[0].Full || len(news[0].About) != 1 {
			t.Errorf("%+v", news)
		}
	})
}

// With Kafka away, or answering but doing nothing, nothing is tried more often
// than it must be; once it is back, all is done.
func TestAnOutage(t *testing.T) {
	for _, op := range []string{"", "create", "init"} {
		t.Run(op, func(t *testing.T) { outage(t, op) })
	}
}

func outage(t *testing.T, op string) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		settle(time.Second)
		away := errors.New("no broker answers")
		f.mu.Lock()
		tried := 0
		f.fault = func(c call) fault {
			if op != "" && c.op != op {
				return fault{}
			}
			tried++
			return fault{refuse: away}
		}
		f.mu.Unlock()
		var want []compute.QueueName
		for i := range 30 {
			f.publish(names.Catalog(), flavor(fmt.Sprintf("f%02d", i)))
			want = append(want, compute.QueueName(fmt.Sprintf("f%02d", i)))
		}
		settle(10 * time.Minute)
		f.mu.Lock()
		if tried > 100 {
			t.Errorf("%d calls in 10 minutes", tried)
		}
		f.fault = nil
		f.mu.Unlock()
		settle(3 * time.Minute)
		f.has(t, want...)
	})
}

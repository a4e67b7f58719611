// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// crowd are hosts that all fit everything and are drawn from the first on: what it costs
// to draw them is not the ringer's.
type crowd []compute.HostID

func (c crowd) Eligible(compute.QueueName) (int, uint64)        { return len(c), 4 * uint64(len(c)) }
func (c crowd) Fits(_ compute.QueueName, _ compute.HostID) bool { return true }
func (c crowd) Sample(_ compute.QueueName, n int, not func(compute.HostID) bool) (out []compute.HostID) {
	for _, h := range c {
		if len(out) == n {
			break
		}
		if !not(h) {
			out = append(out, h)
		}
	}
	return out
}

// loaded knows 20,000 queues, 10,000 builds that wait in one of them, and 1,000 hosts.
func loaded(b *testing.B) (*Ringer, time.Time) {
	b.Helper()
	r, now := New(DefaultRules(), crowd(ids(1000))), zero
	for i := range 20_000 {
		q := compute.QueueName(fmt.Sprint("q", i))
		r.Came(q, Work{Key: "k"}, now)
		if i > 0 {
			r.Went(q, "k", true, now)
		}
	}
	for i := range 10_000 {
		r.Came("q0", Work{Key: fmt.Sprint("k", i)}, now)
	}
	for range 10 {
		now = now.Add(time.Second)
		r.Rings(now)
	}
	return r, now
}

// A build comes into a queue in which none lies, and is rung for.
func BenchmarkCameAndRings(b *testing.B) {
	r, now := loaded(b)
	for b.Loop() {
		now = now.Add(time.Millisecond)
		r.Came("q7", Work{Key: "k"}, now)
		r.Rings(now)
		r.Went("q7", "k", true, now)
	}
}

// A build comes into the queue in which 10,000 lie.
func BenchmarkCameAndRingsWhereMuchLies(b *testing.B) {
	r, now := loaded(b)
	for b.Loop() {
		now = now.Add(time.Millisecond)
		r.Came("q0", Work{Key: "one more"}, now)
		r.Rings(now)
		r.Went("q0", "one more", true, now)
	}
}

func BenchmarkWent(b *testing.B) {
	r, now := loaded(b)
	for b.Loop() {
		r.Went("q0", "k77", true, now)
		b.StopTimer()
		r.Came("q0", Work{Key: "k77"}, now)
		b.StartTimer()
	}
}

// Each beacon asks for all queues in which work lies.
func BenchmarkHungry(b *testing.B) {
	r, _ := loaded(b)
	var all []compute.QueueName
	for b.Loop() {
		all = slices.Grow(all[:0], 1)
		r.EachWaiting(func(q compute.QueueName) { all = append(all, q) })
	}
	if len(all) != 1 {
		b.Errorf("work lies in %v", all)
	}
}

// Once a second the hosts that wait on each queue are looked at.
func BenchmarkHolds(b *testing.B) {
	r, now := loaded(b)
	for b.Loop() {
		r.holds(now)
	}
}

// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestFinishedRecordsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		settle(time.Second)
		f.mu.Lock()
		f.topics["x"].start, f.topics["x"].unwritten, f.topics["x"].end = 42, 2, 45
		f.mu.Unlock()
		f.changes()
		settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"truncate x"}, f.changes()); diff != "" || f.topic("x").low != 40 {
			t.Errorf("log start %d; %s", f.topic("x").low, diff)
		}
		// Three records nobody waits for: agents are told, so that they go.
		if a := f.lastAdvice(t); a["x"].Depth != 3 || a["y"].Depth != 0 {
			t.Errorf("%+v", a)
		}
	})
}

// A queue's position that goes back was set by somebody, and is told of once; one that goes ahead is not.
func TestAPositionThatWentBackIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		reg := prometheus.NewRegistry()
		seen, told := observer.New(zapcore.WarnLevel)
		m := f.join(t, "a", counting(reg), func(o *Options) { o.Logger = zap.New(seen) })
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Second)
		for _, c := range []struct {
			start int64
			back  float64
		}{{42, 0}, {42, 0}, {45, 0}, {7, 1}, {7, 1}, {9, 1}, {0, 2}} {
			f.mu.Lock()
			f.topics["x"].start, f.topics["x"].end = c.start, c.start
			f.topics["x"].low = 0
			f.mu.Unlock()
			settle(5 * time.Minute)
			telemetrytest.Is(t, reg, c.back, "berth_queue_positions_set_back_total")
			if n := told.FilterMessageSnippet("went back").Len(); float64(n) != c.back {
				t.Errorf("told %d times, want %v", n, c.back)
			}
		}
	})
}

func (f *far) advice(t *testing.T) []compute.Advice {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []compute.Advice
	for _, r := range f.logs[names.Advice()] {
		a, err := wire.DecodeAdvice(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func (f *far) lastAdvice(t *testing.T) map[compute.QueueName]compute.QueueAdvice {
	t.Helper()
	out := map[compute.QueueName]compute.QueueAdvice{}
	for _, a := range f.advice(t) {
		for _, q := range a.About {
			out[q.Queue] = q
		}
	}
	return out
}

func TestAdvice(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Hosts(), beacon("h1", 4), beacon("h2", 0))
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		m.elected <- true
		settle(5500 * time.Millisecond) // between two ticks
		told := f.lastAdvice(t)
		if told["x"].Hosts != (compute.HostCounts{NeverFits: 1, Eligible: 1}) || len(told) != 2 {
			t.Fatalf("%+v", told)
		}
		n := len(f.advice(t))
		queued := time.Now()
		pinned := func(i *compute.Instance) { i.Boot.Host = "h1" }
		later := func(i *compute.Instance) { i.PublishAt = time.Now().Add(20 * time.Second) }
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued),
			instance(2, "x", compute.StateQueued, later),
			instance(3, "y", compute.StateQueued, pinned))
		settle(450 * time.Millisecond) // it may be taken any moment
		if news := f.advice(t)[n:]; len(news) != 0 {
			t.Fatalf("told at once: %+v", news)
		}
		settle(100 * time.Millisecond) // it lies there
		news := f.advice(t)[n:]
		if len(news) != 1 || len(news[0].About) != 1 || news[0].About[0].Queue != "x" ||
			news[0].About[0].Depth != 1 || !news[0].About[0].Oldest.Equal(queued) {
			t.Fatalf("%+v", news)
		}
		settle(40 * time.Second) // due by now, and told in full
		if told := f.lastAdvice(t); told["x"].Depth != 2 || told["y"].Depth != 0 {
			t.Errorf("%+v", told)
		}
		f.publish(names.Instances(), instance(1, "x", compute.StateStarting), instance(2, "x", compute.StateDeleted))
		settle(100 * time.Millisecond)
		if told := f.lastAdvice(t); told["x"].Depth != 0 || !told["x"].Oldest.IsZero() {
			t.Errorf("%+v", told)
		}
		settle(time.Minute) // no beacon for long
		if told := f.lastAdvice(t); told["x"].Hosts.Silent != 1 {
			t.Errorf("%+v", told)
		}
		f.checkPace(t)
	})
}

// checkPace holds advice to one record a second.
func (f *far) checkPace(t *testing.T) {
	t.Helper()
	all := f.advice(t)
	for i := 1; i < len(all); i++ {
		if gap := all[i].At.Sub(all[i-1].At); gap < time.Second {
			t.Errorf("advice after %s", gap)
		}
	}
}

// Each attempt is counted once, whatever else is written of it, and nothing of a queue
// that is gone.
func TestEachAttemptComesOnce(t *testing.T) {
	v := newView(Options{Logger: zap.NewNop()})
	later := func(i *compute.Instance) { i.PublishAt = time.Now().Add(time.Minute) }
	for i, step := range []struct {
		rec  wire.Record
		came uint64
	}{
		{instance(1, "x", compute.StateQueued), 1},
		{instance(1, "x", compute.StateStarting), 1},
		{instance(1, "x", compute.StateQueued, later), 2}, // the next attempt backs off
		{instance(1, "x", compute.StateQueued), 2},        // and is published
		{instance(1, "x", compute.StateStarting), 2},
		{instance(2, "x", compute.StateQueued), 3},
		{instance(2, "x", compute.StateDeleted), 3},
		{wire.Record{Topic: names.Queues(), Key: []byte("x")}, 0},
	} {
		if step.rec.Value == nil {
			v.queue(step.rec, time.Now())
		} else {
			v.instance(step.rec, time.Now())
		}
		if v.came["x"] != step.came {
			t.Errorf("after step %d %d came, want %d", i, v.came["x"], step.came)
		}
	}
}

// What comes into a queue has enough hosts asked to wait.
func TestMuchComes(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		for i := range 50 {
			f.publish(names.Hosts(), beacon(fmt.Sprint("h", i), 4))
		}
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		m.elected <- true
		settle(5500 * time.Millisecond)
		for second := range 20 {
			for i := range 4 {
				n := 4*second + i
				f.publish(names.Instances(), instance(n, "x", compute.StateQueued),
					instance(n, "x", compute.StateStarting))
				if n%2 == 0 { // it comes back
					f.publish(names.Instances(), instance(n, "x", compute.StateQueued),
						instance(n, "x", compute.StateActive))
				}
			}
			settle(time.Second)
		}
		// 6 a second, 90 while a lot holds; room for four on each.
		told := f.lastAdvice(t)
		if n := told["x"].Waiters; n < 16 || n > compute.UsualWaiters+23 || told["y"].Waiters != 0 {
			t.Errorf("%d and %d are to wait", n, told["y"].Waiters)
		}
	})
}

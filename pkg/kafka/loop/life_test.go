// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// Without a broker it still stops in time, also from the middle of a transaction.
func TestLoopStopsWithoutABroker(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		a := loop(t, cfg, Options{StopTimeout: 300 * time.Millisecond, TurnTimeout: time.Hour}, newLedger(t, "a"))
		brokertest.Await(t, a.Ready(), "the loop is ready")
		feeding(t, cfg, "k").more(20, 1)
		a.await(t, "apply 0 k 10")
		a.kill(t) // which waits for its end, and not for an hour
	})
}

// It starts and stops any number of times, at any moment, and leaves nothing.
func TestLoopStartsAndStops(t *testing.T) {
	eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
		f := feeding(t, cfg, "k0", "k1")
		f.more(1, 2)
		before := goleak.IgnoreCurrent()
		for i := range 8 {
			a := loop(t, cfg, Options{}, newLedger(t, fmt.Sprint(i)))
			if i%2 == 0 {
				brokertest.Await(t, a.Ready(), "the loop is ready")
				f.more(1, 2)
				a.await(t, fmt.Sprintf("apply 1 k1 %d", f.n["k1"]))
			}
			a.stop(t)
			if has := a.has(); len(has) > 0 {
				t.Errorf("stopped, and still has %v", has)
			}
		}
		brokertest.LeavesNothing(t, before)
		loop(t, cfg, Options{}, newLedger(t, "last")) // what those that stopped left in partition 0 is for this one
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has all", func() bool { return len(instances.recs) == 10 })
		instances.exact(f.n)
	})
}

// A process that stops in order makes no other wait for a time-out.
func TestSuccessorStartsAtOnce(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		patient := Options{
			SessionTimeout: 5 * time.Minute, TurnTimeout: 10 * time.Minute, Heartbeat: time.Second, StopTimeout: longStop,
		}
		for i := range 3 {
			a := loop(t, cfg, patient, newLedger(t, fmt.Sprint(i)))
			a.await(t, "ready 0")
			a.stop(t)
		}
	})
}

func TestWakeMakesATurn(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "a")
		l.onTurn = func(wire.Turn, *wire.Result) { l.say("turn") }
		a := loop(t, cfg, Options{}, l)
		a.Wake() // before there is anything to wake: it is not forgotten
		a.await(t, "ready 0")
		a.await(t, "turn")
		a.Wake()
		a.await(t, "turn")
	})
}

// The whole of it in virtual time, with a timer of an hour.
func TestLoopInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := brokertest.VirtualCell(t)
		l := newLedger(t, "a")
		began := time.Now()
		due := began.Add(time.Hour)
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if at, ok := in.TimersUntil[1]; ok && !at.Before(due) {
				l.say("fired")
			} else {
				res.Wake = due
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		a := New(cfg, Options{Group: "g"}, l)
		go func() { done <- a.Run(ctx) }()
		<-a.Ready()
		p, err := write.NewProducer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			rec := wire.Record{Key: []byte("k"), Value: fmt.Append(nil, n+1)}.To(cfg.Topics.Requests(), 1)
			if err := p.Send(ctx, rec); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
		l.await(t, "apply 1 k 3")
		for e := range l.events {
			if e == "fired" {
				break
			}
		}
		if late := time.Since(due); late < 0 || late > time.Second {
			t.Errorf("fired %v late", late)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What somebody must put right ends the loop, with the reason.
func TestLoopEndsWhenTheGroupRefuses(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		err := New(
			cfg, Options{Group: "g", SessionTimeout: 10 * time.Hour}, newLedger(t, "a"),
		).Run(brokertest.Patient(t))
		if compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("ended with %v", err)
		}
	})
}

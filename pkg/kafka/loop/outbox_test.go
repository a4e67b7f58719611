// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// A process dies with effects that no broker has acknowledged, and has committed
// more since: the next owner sends them, and repeats nothing that was
// acknowledged before.
func TestNextOwnerSendsTheTail(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "a")
		l.effects = effectsOf(cfg)
		a := loop(t, cfg, Options{SessionTimeout: 10 * time.Second}, l) // it dies, and that is to be noticed
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k")
		f.more(5, 1)
		a.await(t, "sent k5 <nil>")
		awaitCursor(t, cfg, 5)
		held, death, once := make(chan struct{}), make(chan struct{}), new(sync.Once)
		a.wire.on(func(b []byte) bool {
			if !bytes.Contains(b, []byte("effect-k-6.")) {
				return false
			}
			once.Do(func() { close(held) })
			<-death
			return true
		})
		f.more(1, 1)
		brokertest.Await(t, held, "its effect is on its way")
		f.more(2, 1)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has eight", func() bool { return len(instances.recs) == 8 })
		a.wire.cut()
		close(death)
		a.kill(t)

		l = newLedger(t, "b")
		l.effects = effectsOf(cfg)
		b := loop(t, cfg, Options{SessionTimeout: longSession}, l)
		b.await(t, "sent k8 <nil>")
		f.more(1, 1)
		b.await(t, "sent k9 <nil>")
		if got, want := l.cursor[0], instances.recs[5].Offset; got > want || got <= instances.recs[4].Offset {
			t.Errorf(
				"the cursor was %d, the sixth change is at %d, the fifth at %d", got, want, instances.recs[4].Offset,
			)
		}
		effects := openLog(t, cfg, effectsOf(cfg))
		effects.sync()
		var got, want []string
		for _, rec := range effects.recs {
			got = append(got, string(rec.Value))
		}
		for n := range 9 {
			want = append(want, fmt.Sprintf("effect-k-%d.", n+1))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// awaitCursor waits until the committed cursor says that the effects of the
// first n changes were sent.
func awaitCursor(t *testing.T, cfg kafka.Config, n int) {
	t.Helper()
	instances := openLog(t, cfg, cfg.Topics.Instances())
	instances.until("has them", func() bool { return len(instances.recs) >= n })
	last := instances.recs[n-1].Offset
	for ctx := brokertest.Patient(t); ; {
		_, cursor := committedOf(t, cfg, 0)
		if cursor > last {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the cursor is %d, the last change at %d", cursor, last)
		}
	}
}

// An effect for a topic that is gone is settled: the handler hears of it, and
// the cursor moves on.
func TestEffectToNowhereIsSettled(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "a")
		l.effects = cfg.Topics.Prefix + "gone"
		a := loop(t, cfg, Options{SessionTimeout: longSession}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		feeding(t, cfg, "k").more(1, 1)
		a.await(t, fmt.Sprintf("sent k1 %v", wire.ErrNoTopic))
		awaitCursor(t, cfg, 1)
		a.stop(t)
	})
}

func TestOutboxCursor(t *testing.T) {
	o := newOutbox(nil, nil)
	cursor := func(want int64) {
		t.Helper()
		if got := o.cursor(0); got != want {
			t.Errorf("cursor %d, want %d", got, want)
		}
	}
	ship := func(first, behind int64, effects int) *turnEffects {
		o.partitions[0].next = behind
		p := &turnEffects{offset: first, left: effects}
		o.partitions[0].open = append(o.partitions[0].open, p)
		o.unsent += effects
		o.partitions[0].count(effects, false)
		return p
	}
	arrive := func(p *turnEffects, err error) {
		o.report(outcome{partition: o.partitions[0], turn: p, tag: "t", err: err})
		o.collect()
	}
	cursor(-1)
	o.gain(0, 5)
	cursor(5)
	one, two := ship(5, 8, 2), ship(9, 10, 1)
	cursor(5)
	arrive(two, nil)
	cursor(5)
	arrive(one, nil)
	cursor(5)
	arrive(one, wire.ErrNoTopic)
	cursor(10)
	const hopeless = 4
	for i := range int64(hopeless) {
		next := i + 11
		arrive(ship(next-1, next, 1), compute.Invalid("record", "", "no broker takes it as it is"))
		cursor(next)
	}
	stuck, after := ship(16, 17, 1), ship(18, 19, 1)
	arrive(stuck, fmt.Errorf("no broker"))
	arrive(after, nil)
	cursor(16)
	if n := len(o.takeSent()); n != 5+hopeless || o.unsent != 0 || o.unsentOf(0) != 0 {
		t.Errorf("%d were told, %d are unsent, %d of the partition", n, o.unsent, o.unsentOf(0))
	}
	late := ship(20, 21, 1)
	old := o.partitions[0]
	o.lose(0)
	o.gain(0, 12)
	o.report(outcome{partition: old, turn: late, tag: "late"})
	o.collect()
	cursor(12)
	if n := len(o.takeSent()); n != 0 {
		t.Errorf("told %d of a partition that was lost since", n)
	}
}

func TestParseCursor(t *testing.T) {
	for metadata, want := range map[string]int64{
		"outbox=0": 0, "outbox=17": 17, "": -1, "outbox=": -1, "outbox=-3": -1, "outbox=x": -1, "berth-1234": -1,
	} {
		if got := parseCursor(&metadata); got != want {
			t.Errorf("%q is %d, want %d", metadata, got, want)
		}
	}
	if got := parseCursor(nil); got != -1 {
		t.Errorf("nothing is %d", got)
	}
	p := position{cursor: 42}
	if got := parseCursor(p.metadata(requests)); got != 42 {
		t.Errorf("42 came back as %d", got)
	}
}

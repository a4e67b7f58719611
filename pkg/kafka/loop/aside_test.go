// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

// asides hears which partitions a loop has set aside.
type asides struct {
	mu  sync.Mutex
	now []Aside
	is  chan struct{} // rung with every word
}

func newAsides() *asides { return &asides{is: make(chan struct{}, 1)} }

func (a *asides) set(now []Aside) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = now
	select {
	case a.is <- struct{}{}:
	default:
	}
}

// setAsideTold has a loop tell it. The session is long: a member of the embedded
// broker's group that is put out while it joins keeps its partitions.
func setAsideTold(a *asides) Options {
	return Options{SetAside: a.set, SessionTimeout: 30 * time.Second, StopTimeout: longStop}
}

// await waits until just these partitions are set aside.
func (a *asides) await(t *testing.T, want ...int32) {
	t.Helper()
	for ctx := brokertest.Patient(t); ; {
		a.mu.Lock()
		var has []int32
		for _, one := range a.now {
			has = append(has, one.Partition)
		}
		a.mu.Unlock()
		if slices.Equal(has, want) {
			return
		}
		select {
		case <-a.is:
		case <-ctx.Done():
			t.Fatalf("set aside are %v, want %v", has, want)
		}
	}
}

// A position behind the end of a topic, whether instances has it or the group, sets
// its partition aside and no other; it stays so for every later owner, though the
// topic grows beyond the position, until somebody resets it.
func TestPartitionIsSetAside(t *testing.T) {
	const far = 5 // behind the end, and soon before it
	for name, astray := range map[string]func(t *testing.T, cfg kafka.Config){
		"in instances": func(t *testing.T, cfg kafka.Config) {
			s := fencedWriterOf(t, cfg)
			recs := []wire.Record{{Key: []byte("before"), Value: []byte("1")}}
			position{at: [inputTopics]int64{0, far}, cursor: 0}.carry(recs)
			if err := s.write(
				brokertest.Patient(t), map[int32]*entry{1: {epoch: epochsOf(t, s, 1)[1].epoch, records: recs}},
			); err != nil {
				t.Fatal(err)
			}
		},
		"in the group": func(t *testing.T, cfg kafka.Config) {
			var offsets kadm.Offsets
			offsets.AddOffset(cfg.Topics.Requests(), 1, 0, -1)
			offsets.AddOffset(cfg.Topics.Reports(), 1, far, -1)
			if err := kadm.NewClient(brokertest.AnyClient(t, cfg)).CommitAllOffsets(
				brokertest.Patient(t), cfg.Topics.ConductorGroup(), offsets,
			); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
				astray(t, cfg)
				brokertest.Put(t, cfg, cfg.Topics.Reports(), 1, "before")
				f := feeding(t, cfg, "k0", "k1", "report0", "report1")
				asides := newAsides()
				counted, reg := brokertest.Counting(cfg)
				a := loop(t, counted, setAsideTold(asides), newLedger(t, "a"))
				asides.await(t, 1)
				brokertest.Becomes(t, reg, 1, "berth_loop_partitions", "state", "aside")
				brokertest.Await(t, a.Ready(), "the loop is ready without it")
				f.more(far+1, 2) // now the topic is longer than the position says
				a.await(t, "apply 0 report0 6")
				a.stop(t)

				asides = newAsides()
				counted, reg = brokertest.Counting(cfg)
				b := loop(t, counted, setAsideTold(asides), newLedger(t, "b"))
				asides.await(t, 1)
				f.more(1, 2)
				b.await(t, "apply 0 report0 7")

				noted, err := SetAside(brokertest.Patient(t), cfg)
				if err != nil || !slices.Equal(noted, []int32{1}) {
					t.Errorf("written down is that %v are set aside, %v", noted, err)
				}
				from, err := PositionOf(brokertest.Patient(t), cfg, 1)
				if err != nil || !from.Aside || !from.BeyondEnd() {
					t.Fatalf("%+v, %v", from, err)
				}
				to, err := from.Reset(ResetNoticed)
				if err != nil || to.Inputs[reports].At != 1 {
					t.Fatalf("%+v, %v", to, err)
				}
				brokertest.Becomes(t, reg, 1, "berth_loop_partitions", "state", "aside")
				if err := ResetPosition(brokertest.Patient(t), cfg, to); err != nil {
					t.Fatal(err)
				}
				asides.await(t)
				brokertest.Becomes(t, reg, 0, "berth_loop_partitions", "state", "aside")
				b.await(t, "apply 1 k1 7")
				b.await(t, "apply 1 report1 7")
				if healed, err := PositionOf(brokertest.Patient(t), cfg, 1); err != nil || healed.BeyondEnd() {
					t.Errorf("%+v, %v", healed, err)
				} else if _, err := healed.Reset(ResetEnd); compute.KindOf(err) != compute.KindConflict {
					t.Errorf("what is right was reset: %v", err)
				}
				if noted, err := SetAside(brokertest.Patient(t), cfg); err != nil || len(noted) > 0 {
					t.Errorf("after the reset %v are set aside, %v", noted, err)
				}
				b.stop(t)
				// What was said before the reset is true no more, for nobody.
				asides = newAsides()
				c := loop(t, cfg, setAsideTold(asides), newLedger(t, "c"))
				brokertest.Await(t, c.Ready(), "the next is ready")
				f.more(1, 2)
				c.await(t, "apply 1 k1 8")
				asides.await(t)
			})
		})
	}
}

func TestPositionNotes(t *testing.T) {
	for note, want := range map[string]position{
		"requests=5 reports=7 outbox=9": {at: [inputTopics]int64{5, 7}, cursor: 9},
		"requests=5 reports=7 outbox=9 requests-epoch=0 anything=3": {
			at: [inputTopics]int64{5, 7}, cursor: 9, wrote: [inputTopics]fetch.Epoch{requests: fetch.EpochOf(0)},
		},
		"requests=5 reports=7 outbox=9 reports-epoch=4294967296": {at: [inputTopics]int64{5, 7}, cursor: 9},
	} {
		header := wire.Header{Key: wire.HeaderPosition, Value: []byte(note)}
		if got, ok := carried(wire.Record{Headers: []wire.Header{header}}); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", note, got, want)
		}
	}
}

func TestPositionReset(t *testing.T) {
	at := func(reset, r int64, aside bool) position {
		return position{at: [inputTopics]int64{r, r}, cursor: r, reset: reset, aside: aside}
	}
	known := func(p position, epoch int32) position {
		p.wrote[requests], p.wrote[reports] = fetch.EpochOf(epoch), fetch.EpochOf(epoch+1)
		return p
	}
	for _, c := range []struct{ a, b, want position }{
		{known(at(0, 5, false), 3), at(0, 7, false), at(0, 7, false)}, // a version that knows no epochs
		{known(at(0, 5, false), 3), at(0, 5, false), known(at(0, 5, false), 3)},
		{known(at(0, 5, false), 3), known(at(0, 7, false), 4), known(at(0, 7, false), 4)},
		{known(at(0, 5, false), 3), known(at(0, 5, false), 4), known(at(0, 5, false), 4)},
		{known(at(0, 9, false), 0), at(1, 5, false), at(1, 5, false)},
		{at(0, 5, false), at(0, 7, false), at(0, 7, false)},
		{at(0, 5, false), at(1, 3, false), at(1, 3, false)},
		{at(2, 1, false), at(1, 3, true), at(2, 1, false)},
		{at(1, 1, true), at(1, 3, false), at(1, 3, true)},
	} {
		if got := c.a.further(c.b); got != c.want {
			t.Errorf("%+v and %+v: %+v, want %+v", c.a, c.b, got, c.want)
		}
		if got := c.b.further(c.a); got != c.want {
			t.Errorf("%+v and %+v: %+v, want %+v", c.b, c.a, got, c.want)
		}
		recs := []wire.Record{{}}
		c.want.carry(recs)
		if got, ok := carried(recs[0]); !ok || got != c.want {
			t.Errorf("%+v came back as %+v", c.want, got)
		}
		if m := c.want.metadata(requests); parseCursor(m) != c.want.cursor || parseReset(m) != c.want.reset {
			t.Errorf("%+v came back as %q", c.want, *m)
		}
	}
}

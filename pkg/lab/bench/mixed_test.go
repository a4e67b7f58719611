// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/bench/mixed"
)

// deletes is a sender that notes when what is deleted.
type deletes struct {
	at  map[string]time.Duration
	now func() time.Duration
	err error
}

func (d deletes) boot(context.Context, *boot, compute.Boot) error { return nil }

func (d deletes) delete(_ context.Context, b *boot) error {
	d.at[b.name] = d.now()
	return d.err
}

// A machine is deleted when its life is over, counted from its start on, and all of them when all lives are, those too
// that start later.
func TestMachinesDieWhenTheirLivesAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := deletes{map[string]time.Duration{}, func() time.Duration { return time.Since(began) }, nil}
		l := newLedger()
		boots := []*boot{{name: "short"}, {name: "long"}, {name: "late"}}
		l.enter(boots)
		r := reaper{
			load: newLoad(l, d, nil), all: make(chan struct{}), stop: make(chan struct{}),
			lives: map[*boot]time.Duration{boots[0]: 2 * time.Second, boots[1]: time.Hour, boots[2]: time.Hour},
		}
		done := make(chan error)
		go func() { done <- r.run(t.Context()) }()
		starts := func(name string) {
			l.observe(time.Now(), []observation{{name: name, state: compute.StateActive}})
			synctest.Wait()
		}
		starts("long")
		time.Sleep(3 * time.Second)
		starts("short")
		time.Sleep(7 * time.Second)
		close(r.all)
		synctest.Wait()
		time.Sleep(time.Second)
		starts("late")
		close(r.stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := map[string]time.Duration{"short": 5 * time.Second, "long": 10 * time.Second, "late": 11 * time.Second}
		if diff := cmp.Diff(want, d.at); diff != "" {
			t.Error("deleted (-want +got):", diff)
		}
	})
}

func TestAMachineThatCannotBeDeletedEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := newLedger(), &boot{name: "b"}
		l.enter([]*boot{b})
		d := deletes{map[string]time.Duration{}, func() time.Duration { return 0 }, errors.New("no")}
		r := reaper{load: newLoad(l, d, nil), all: make(chan struct{}), stop: make(chan struct{})}
		l.observe(time.Now(), []observation{{name: "b", state: compute.StateActive}})
		if err := r.run(t.Context()); !errors.Is(err, d.err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWaitsOfAMix(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	x := &mixRun{from: at(10), until: at(100)}
	add := func(b boot) {
		x.boots = append(x.boots, mortal{&b, mixed.Arrival{Priority: compute.PriorityLow, Group: "g"}, 4})
	}
	add(boot{due: at(9), accepted: at(10), starting: at(12)})
	add(boot{due: at(10), accepted: at(11), starting: at(12)})
	add(boot{due: at(20), accepted: at(21)})
	add(boot{due: at(20), refused: errors.New("no")})
	add(boot{due: at(20), accepted: at(21), ended: at(30), state: compute.StateError})
	w := func(measured, waits bool, took time.Duration) mixed.Wait {
		return mixed.Wait{Size: 4, Priority: compute.PriorityLow, Member: true, Measured: measured, Waits: waits, Took: took}
	}
	want := []mixed.Wait{w(false, false, 2*time.Second), w(true, false, time.Second), w(true, true, 79*time.Second)}
	if diff := cmp.Diff(want, x.waits()); diff != "" {
		t.Error("waits (-want +got):", diff)
	}
}

func TestChanges(t *testing.T) {
	at := time.Unix(1000, 0)
	got := changes([]fake.Event{
		{At: at, Kind: fake.Launched, Instance: "a"}, {At: at, Kind: fake.Undone, Instance: "b"},
		{At: at.Add(1), Kind: fake.Destroyed, Instance: "a"},
	}, map[compute.InstanceID]int{"a": 4, "b": 8})
	if diff := cmp.Diff([]mixed.Change{{At: at, Processors: 4}, {At: at.Add(1), Processors: -4}}, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
}

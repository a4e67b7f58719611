// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// spoken is a beacon of h1 by one of its agents.
func spoken(by compute.Voice, knows bool) wire.Record {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 4}}
	b := compute.Beacon{Host: "h1", Journal: by.Journal, Started: by.Started, Inventory: inv, Twins: knows}
	return wire.EncodeBeacon(b)
}

// words are the commands of these kinds that h1 was told since the last time asked.
func (f *far) words(t *testing.T, ops ...compute.CommandOp) (all []compute.Command) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range f.logs[names.Host("h1")] {
		c, err := wire.DecodeCommand(rec)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(ops, c.Op) {
			all = append(all, c)
		}
	}
	delete(f.logs, names.Host("h1"))
	return all
}

// warned are the words about twins that h1 was told since the last time asked.
func (f *far) warned(t *testing.T) (all [][]compute.Voice) {
	t.Helper()
	for _, c := range f.words(t, compute.CommandTwins) {
		all = append(all, c.Voices)
	}
	return all
}

// Two agents that speak for one host are told of each other, again and again, until
// one is silent, and a metric counts the host. Nobody is told of an agent that was started again.
func TestTwinsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		reg := prometheus.NewRegistry()
		counted := func(want float64) {
			t.Helper()
			telemetrytest.Is(t, reg, want, "berth_hosts_with_twins")
		}
		m := f.join(t, "a", counting(reg))
		m.elected <- true
		settle(5 * time.Second)
		began := time.Now().UTC()
		a, b := compute.Voice{Journal: "a", Started: began}, compute.Voice{Journal: "b", Started: began.Add(time.Hour)}
		say := func(knows bool, voices ...compute.Voice) {
			for _, v := range voices {
				f.publish(names.Hosts(), spoken(v, knows))
				settle(7 * time.Second)
			}
		}
		say(true, a, a, b, b, b)
		if got := f.warned(t); len(got) > 0 {
			t.Errorf("of a restart: %v", got)
		}
		counted(0)
		settle(time.Minute)
		say(true, a, b, a, b, a, b)
		counted(1)
		if diff := cmp.Diff([][]compute.Voice{{a, b}}, f.warned(t)); diff != "" {
			t.Error(diff)
		}
		say(true, a, b, a, b)
		if diff := cmp.Diff([][]compute.Voice{{a, b}}, f.warned(t)); diff != "" {
			t.Error(diff)
		}
		settle(time.Minute)
		say(true, a, a)
		if got := f.warned(t); len(got) > 0 {
			t.Errorf("of one that is gone: %v", got)
		}
		counted(0)
		settle(time.Minute)
		if say(false, a, b, a, b, a, b); len(f.warned(t)) > 0 {
			t.Error("agents of an older version are told")
		}
	})
}

// asking is a beacon of h1 by an agent that asks whether it is alone.
func asking(by, beside compute.Voice) wire.Record { return asks("h1", by, beside) }

// asks is such a beacon of any host.
func asks(h compute.HostID, by compute.Voice, beside ...compute.Voice) wire.Record {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 4}}
	return wire.EncodeBeacon(compute.Beacon{
		Host: h, Journal: by.Journal, Started: by.Started, Inventory: inv, Twins: true, Asks: true,
		Beside: append(beside, compute.Voice{})[0],
	})
}

// told are the words about the agents of h1 since the last time asked.
func (f *far) told(t *testing.T) (all []string) {
	t.Helper()
	for _, c := range f.words(t, compute.CommandBegun, compute.CommandAlone, compute.CommandTwins) {
		all = append(all, c.Op.String()+" "+string(c.Voices[0].Journal))
	}
	return all
}

// An agent that asks is told that it is alone at once if the one before has ended, and else once all others of
// its name have had the time to say that they live.
func TestAsksAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		settle(5 * time.Second)
		began := time.Now().UTC()
		a, b := compute.Voice{Journal: "a", Started: began}, compute.Voice{Journal: "b", Started: began.Add(time.Hour)}
		again := compute.Voice{Journal: "a", Started: began.Add(time.Minute)}
		f.publish(names.Hosts(), asking(a, compute.Voice{}))
		settle(2 * time.Second)
		f.told(t) // or not yet: its stream is being made
		for _, step := range []struct {
			what string
			say  wire.Record
			want []string
		}{
			{"the first", asking(a, compute.Voice{}), []string{"alone a"}},
			{"it works", spoken(a, true), nil},
			{"a second", asking(b, compute.Voice{}), []string{"begun b"}},
			{"the first lives", asking(a, b), []string{"begun a"}},
			{"the second lives", asking(b, a), []string{"twins a"}},
		} {
			f.publish(names.Hosts(), step.say)
			settle(2 * time.Second)
			if diff := cmp.Diff(step.want, f.told(t)); diff != "" {
				t.Errorf("%s: %s", step.what, diff)
			}
		}
		settle(2 * time.Minute)
		f.publish(names.Hosts(), spoken(a, true))
		settle(2 * time.Second)
		f.publish(names.Hosts(), asking(again, compute.Voice{}))
		settle(10 * time.Second)
		f.publish(names.Hosts(), asking(again, compute.Voice{}))
		settle(2 * time.Second)
		if diff := cmp.Diff([]string{"begun a", "alone a"}, f.told(t)); diff != "" {
			t.Errorf("killed, and started again: %s", diff)
		}
	})
}

// A host whose stream has no leader holds up no answer to another host.
func TestAnswersBesideAHostWithoutALeader(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Hosts(), ringing("h0", 4), ringing("h1", 4))
		settle(5 * time.Second)
		f.mu.Lock()
		f.leaderless = names.Host("h0")
		f.mu.Unlock()
		began := time.Now().UTC()
		a, other := compute.Voice{Journal: "a", Started: began}, compute.Voice{Journal: "b", Started: began}
		f.publish(names.Hosts(), asks("h0", other))
		settle(time.Second)
		f.publish(names.Hosts(), asking(a, compute.Voice{}))
		settle(time.Second)
		if got := f.told(t); len(got) != 1 {
			t.Errorf("the other host is told %v", got)
		}
	})
}

// Where more agents ask at once than are answered in one pass, all are answered.
func TestManyAsksAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a", func(o *Options) { o.Batch = 1 })
		m.elected <- true
		f.publish(names.Hosts(), ringing("h0", 4), ringing("h1", 4))
		settle(5 * time.Second)
		a := compute.Voice{Journal: "a", Started: time.Now().UTC()}
		f.publish(names.Hosts(), asks("h0", a), asking(a, compute.Voice{}))
		settle(time.Second)
		if got := f.told(t); len(got) != 1 {
			t.Errorf("the second is told %v", got)
		}
	})
}

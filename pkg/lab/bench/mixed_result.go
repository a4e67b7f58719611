// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/bench/mixed"
	"github.com/berth-project/berth/queues/save"
)

// MixResult is what a run of a mixed load found. docs/BENCH.md says what each number means; the keys are promised to
// scripts.
type MixResult struct {
	mixed.Rows
	Fill    mixed.Fill `json:"fill"`
	Offered mixed.Fill `json:"offered"` // what it would have been if none had to wait and hosts had room for all
	Savings MixSavings `json:"savings"`
	// Of all boots, those of the warm-up too:
	Boots   int `json:"boots"`
	Error   int `json:"error"`
	Refused int `json:"refused"`
	Lost    int `json:"lost"`
	Doubled int `json:"doubled"`

	Denied   int64 `json:"denied"` // while it was measured, as the next two
	Released int64 `json:"released"`
	CPU      CPU   `json:"cpu_s"`
	Wasted   int64 `json:"wasted"` // machines that were prepared and never launched

	Load     MixSettings    `json:"load"`
	Machine  Machine        `json:"machine"`
	Versions Versions       `json:"versions"`
	Wrong    []string       `json:"wrong"` // a line for each thing that was lost or doubled
	Warnings map[string]int `json:"warnings"`
}

// MixSavings are how often hosts saved room for large work while it was measured.
type MixSavings struct {
	Hosts  float64 `json:"hosts"`   // that saved, in the mean
	Taken  int64   `json:"taken"`   // savings that ended since the work was taken
	InVain int64   `json:"in_vain"` // since their time was over
	Other  int64   `json:"other"`   // since the work had gone, or the host took none any more
}

// MixSettings are what a run was asked for.
type MixSettings struct {
	Kafka      string  `json:"kafka"` // embedded, local or remote
	Hosts      int     `json:"hosts"`
	HostSize   int     `json:"host_size"`
	Sizes      []int   `json:"sizes"`
	LifeS      float64 `json:"life_s"`
	Rate       float64 `json:"rate"` // boots a second
	Fill       float64 `json:"fill"`
	High       float64 `json:"high"`
	Low        float64 `json:"low"`
	Grouped    float64 `json:"grouped"`
	GroupOf    int     `json:"group_of"`
	Projects   int     `json:"projects"`
	Seed       uint64  `json:"seed"`
	WarmupS    float64 `json:"warmup_s"`
	ForS       float64 `json:"for_s"`
	SaveAfterS float64 `json:"save_after_s"` // 0: no host saves
	SaveForS   float64 `json:"save_for_s"`
	SaveShare  int     `json:"save_share"`
	Slots      int     `json:"slots"`
	Conductors int     `json:"conductors"`
	Partitions int32   `json:"partitions"`
}

func mixSettings(kind string, o Options, l mixed.Load, s save.Rules) MixSettings {
	return MixSettings{
		Kafka: kind, Hosts: l.Hosts, HostSize: l.HostSize, Sizes: l.Sizes, LifeS: l.Life.Seconds(), Rate: round(l.Rate()),
		Fill: l.Fill, High: l.High, Low: l.Low, Grouped: l.Grouped, GroupOf: l.GroupOf, Projects: l.Projects, Seed: l.Seed,
		WarmupS: l.From().Seconds(), ForS: l.For.Seconds(), SaveAfterS: s.After.Seconds(), SaveForS: s.For.Seconds(),
		SaveShare: s.Share, Slots: o.Slots, Conductors: o.Conductors, Partitions: o.Partitions,
	}
}

// waits are what became of the boots so far. Called with the ledger's lock held.
func (x *mixRun) waits() (out []mixed.Wait) {
	for _, b := range x.boots {
		if b.accepted.IsZero() || !b.ended.IsZero() && b.starting.IsZero() {
			continue // it was refused, or ended in error
		}
		w := mixed.Wait{
			Size: b.size, Priority: b.Priority, Member: b.Group != "", Measured: !b.due.Before(x.from),
			Waits: b.starting.IsZero(),
		}
		granted := b.starting
		if w.Waits {
			granted = x.until
		}
		w.Took = granted.Sub(b.accepted)
		out = append(out, w)
	}
	return out
}

// used is what was done from one moment to another.
func (x *mixRun) used(before, after snapshot) {
	was, is := before.all, after.all
	x.result.Denied, x.result.Released = is.Denied-was.Denied, is.Released-was.Released
	x.result.CPU = after.usage.since(before.usage, x.result.All.Boots)
	x.result.Warnings = is.Warnings
	n := 0
	for _, hosts := range x.saving {
		n += hosts
	}
	s := &x.result.Savings
	s.Hosts = round(float64(n) / float64(max(1, len(x.saving))))
	for why, ended := range is.Savings {
		switch ended -= was.Savings[why]; why {
		case "taken":
			s.Taken += ended
		case "time":
			s.InVain += ended
		default:
			s.Other += ended
		}
	}
}

// sumUp is the rest of the result, once nothing runs any more.
func (x *mixRun) sumUp(happened outcome) {
	r := &x.result
	r.Boots, r.Wrong = len(x.boots), []string{}
	sizes := map[compute.InstanceID]int{}
	for _, b := range x.boots {
		sizes[b.id] = b.size
		switch {
		case b.state == compute.StateError || !b.ended.IsZero() && b.starting.IsZero():
			r.Error++
		case b.refused != nil && b.state == compute.StateNone:
			r.Refused++
		}
	}
	r.Wasted = wasted(x.sent, happened.Events)
	v := judge(x.sent, happened.Events, happened.Overfull)
	r.Lost, r.Doubled, r.Wrong = v.lost, v.doubled, append(r.Wrong, v.wrong...)
	r.Fill = mixed.FillOver(changes(happened.Events, sizes), x.from, x.until, x.m.Load.Processors())
	r.Offered = x.m.Load.Offered(x.m.Load.Arrivals())
	for _, f := range []*mixed.Fill{&r.Fill, &r.Offered} {
		f.Mean, f.P10 = round(f.Mean), round(f.P10)
	}
	r.Load = mixSettings(x.broker.kind, x.o, x.m.Load, x.m.Savings)
	r.Machine, r.Versions = x.run.result.Machine, x.run.result.Versions
}

// changes are when machines began and ended to run.
func changes(events []fake.Event, sizes map[compute.InstanceID]int) (out []mixed.Change) {
	for _, e := range events {
		switch e.Kind {
		case fake.Launched:
			out = append(out, mixed.Change{At: e.At, Processors: sizes[e.Instance]})
		case fake.Destroyed:
			out = append(out, mixed.Change{At: e.At, Processors: -sizes[e.Instance]})
		}
	}
	return out
}

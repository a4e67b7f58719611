// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// unitOf is what the values of a thing are, where its name alone does not say.
func unitOf(vary string) string {
	switch vary {
	case "rate":
		return "boots/s offered"
	case "closed":
		return "boots in flight"
	case "host-size":
		return "machines a host has room for"
	case "fill":
		return "share of the hosts that is taken in the end"
	case "skew":
		return "share of the boots that go to the first queue"
	case "slots":
		return "builds that a host prepares at once"
	case "replication":
		return "brokers that keep each record"
	case "burst":
		return "boots sent at once"
	case "prepare-time", "launch-time":
		return vary + ", ms"
	}
	return vary
}

// sweepFigure has a panel each for what went through, how long it took, and what
// it cost.
func sweepFigure(vary string, runs []measured) figure {
	over := func(name string, style look, number func(result) float64) series {
		s := series{name: name, look: style}
		for _, m := range runs {
			s.points = append(s.points, point{m.Value, number(m.Result)})
		}
		return s
	}
	x := axis{label: unitOf(vary)}
	through := panel{title: "Boots that went through", x: x, y: axis{label: "boots/s", zero: true}}
	if !slices.ContainsFunc(runs, func(m measured) bool { return m.Result.Settings.Rate == 0 }) {
		through.series = append(through.series, over("offered", reference, func(r result) float64 {
			return r.Settings.Rate
		}))
	}
	through.series = append(through.series, over("became active", first, func(r result) float64 { return r.BootsPerS }))
	took := panel{title: "From accepted to granted", x: x, y: axis{label: "ms", zero: true}, series: []series{
		over("p50", first, func(r result) float64 { return r.AcceptedGrantedMS.P50 }),
		over("p99", second, func(r result) float64 { return r.AcceptedGrantedMS.P99 }),
	}}
	cost := panel{title: "Processor time of a boot", x: x, y: axis{label: "ms", zero: true}}
	if slices.ContainsFunc(runs, func(m measured) bool { return m.Result.CPU.Broker != nil }) {
		cost.series = append(cost.series,
			over("all", second, func(r result) float64 { return r.aBoot(r.CPU.all()) }),
			over("without the broker", first, func(r result) float64 { return r.aBoot(r.CPU.Berth) }))
	} else {
		cost.series = append(cost.series, over("all of this process", first, func(r result) float64 {
			return r.aBoot(r.CPU.Berth)
		}))
	}
	f := figure{
		title: "berth bench sweep: " + vary, lines: []string{runs[0].Result.setting(vary)},
		panels: []panel{through, took, cost},
	}
	lost, doubled := 0, 0
	for _, m := range runs {
		lost, doubled = lost+m.Result.Lost, doubled+m.Result.Doubled
	}
	f.lines = append(f.lines, counted(runs)+fmt.Sprintf("; %d lost, %d doubled", lost, doubled))
	return f
}

// counted says how often values were measured, and so what is drawn.
func counted(runs []measured) string {
	n := map[float64]int{}
	most := 0
	for _, m := range runs {
		n[m.Value]++
		most = max(most, n[m.Value])
	}
	if most == 1 {
		return "one run a value"
	}
	return fmt.Sprintf("a point is a run, up to %d a value; lines join their medians", most)
}

func (r result) aBoot(seconds float64) float64 { return 1000 * seconds / float64(max(r.Boots, 1)) }

func (c cpu) all() float64 {
	if c.Broker == nil {
		return c.Berth
	}
	return c.Berth + *c.Broker
}

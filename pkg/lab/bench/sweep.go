// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
)

// Sweep is one thing of which several values are measured, all else being equal.
// ParseSweep makes it.
type Sweep struct {
	Vary   string    // the name of a thing, which is that of its flag
	Values []float64 // durations are in milliseconds
	Repeat int       // how often each is measured
	thing  sweepable // that Vary names
	texts  []string  // the values, as they were given
}

// Measured is a run of a sweep.
type Measured struct {
	Value  float64 `json:"value"`
	Result Result  `json:"result"`
}

// sweepable is a thing that may be varied.
type sweepable struct {
	name  string
	parse func(string) (float64, error)
	hint  string // what a value has to be
	set   func(*Options, float64)
}

// sweepables are all of them. What is not here either says how much is measured
// (--count, --warmup), which no cost grows with, or is no number.
func sweepables() []sweepable {
	whole := func(name string, field func(*Options) *int) sweepable {
		return sweepable{name, parseWhole, "whole numbers", func(o *Options, x float64) { *field(o) = int(x) }}
	}
	number := func(name string, field func(*Options) *float64) sweepable {
		return sweepable{name, parseNumber, "numbers", func(o *Options, x float64) { *field(o) = x }}
	}
	span := func(name string, field func(*Options) *time.Duration) sweepable {
		return sweepable{
			name,
			parseSpan,
			"durations, as 50ms",
			func(o *Options, x float64) { *field(o) = time.Duration(math.Round(x * float64(time.Millisecond))) },
		}
	}
	return []sweepable{
		whole("hosts", func(o *Options) *int { return &o.Hosts }),
		whole("host-size", func(o *Options) *int { return &o.HostSize }),
		number("fill", func(o *Options) *float64 { return &o.Fill }),
		whole("queues", func(o *Options) *int { return &o.Queues }),
		number("skew", func(o *Options) *float64 { return &o.Skew }),
		whole("slots", func(o *Options) *int { return &o.Slots }),
		whole("conductors", func(o *Options) *int { return &o.Conductors }),
		whole("projects", func(o *Options) *int { return &o.Projects }),
		{"partitions", parseWhole, "whole numbers", func(o *Options, x float64) { o.Partitions = int32(x) }},
		whole("replication", func(o *Options) *int { return &o.Replication }),
		number("rate", func(o *Options) *float64 { return &o.Rate }),
		whole("burst", func(o *Options) *int { return &o.Burst }),
		whole("closed", func(o *Options) *int { return &o.Closed }),
		span("prepare-time", func(o *Options) *time.Duration { return &o.PrepareTime }),
		span("launch-time", func(o *Options) *time.Duration { return &o.LaunchTime }),
	}
}

// Sweepable are the names of all that a sweep may vary.
func Sweepable() []string {
	var names []string
	for _, s := range sweepables() {
		names = append(names, s.name)
	}
	return names
}

// ParseSweep reads NAME=VALUE,VALUE,… and how often each value is measured.
func ParseSweep(vary string, repeat int) (Sweep, error) {
	const most = 100
	if repeat < 1 || repeat > most {
		return Sweep{}, compute.Invalid("repeat", fmt.Sprint(repeat), fmt.Sprintf("give a number from 1 to %d", most))
	}
	name, list, found := strings.Cut(vary, "=")
	if !found || list == "" {
		return Sweep{}, compute.Invalid("vary", vary, "give a name and its values, as hosts=10,100,1000")
	}
	all := sweepables()
	i := slices.IndexFunc(all, func(s sweepable) bool { return s.name == name })
	if i < 0 {
		return Sweep{}, compute.Invalid("vary", name, "give one of "+strings.Join(Sweepable(), ", "))
	}
	s := Sweep{Vary: name, Repeat: repeat, thing: all[i]}
	for _, text := range strings.Split(list, ",") {
		value, err := s.thing.parse(text)
		if err != nil {
			return Sweep{}, compute.Invalid(name, text, "give "+s.thing.hint+", separated by commas")
		}
		if slices.Contains(s.Values, value) {
			return Sweep{}, compute.Invalid(
				name,
				text,
				"it is there twice: give each value once, and --repeat to measure it again",
			)
		}
		s.Values, s.texts = append(s.Values, value), append(s.texts, text)
	}
	return s, nil
}

// parseWhole takes what fits the narrowest of the fields.
func parseWhole(text string) (float64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return float64(n), err
}

func parseNumber(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = strconv.ErrRange
	}
	return x, err
}

// parseSpan answers milliseconds.
func parseSpan(text string) (float64, error) {
	d, err := time.ParseDuration(text)
	return float64(d) / float64(time.Millisecond), err
}

// Options are what Run measures: o with each of the values, and again as often as
// each is measured. The values take turns, so that an hour in which the machine is
// slower makes none of them look worse than the others, and a sweep that is ended early has
// something of each.
func (s Sweep) Options(o Options) []Options {
	var runs []Options
	for again := range s.Repeat {
		for i, value := range s.Values {
			run := o
			s.thing.set(&run, value)
			run.Title = fmt.Sprintf("%s %s", s.Vary, s.texts[i])
			if s.Repeat > 1 {
				run.Title += fmt.Sprintf(", %d of %d", again+1, s.Repeat)
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// Run measures all values, each run on a cell of its own, and answers those runs
// that came to their end. o has its defaults filled in.
func (s Sweep) Run(ctx context.Context, o Options, p lab.Product) ([]Measured, error) {
	results, err := RunAll(ctx, s.Options(o), p)
	measured := make([]Measured, 0, len(results))
	for i, r := range results {
		measured = append(measured, Measured{s.Values[i%len(s.Values)], r})
	}
	return measured, err
}

// Row is what the runs of one value say together: medians of what was measured,
// and sums of what went wrong, for once is enough.
type Row struct {
	Value     float64
	Text      string // the value as it was given
	Runs      int
	BootsPerS float64
	// P50 and P99 are of accepted_granted_ms, ActiveP99 of active_ms.
	P50, P99, ActiveP99 float64
	// CPUMS is processor time of a boot in ms, of brokers and Berth; OursMS is
	// Berth's own.
	CPUMS, OursMS float64
	CentreMS      float64 // the centre's alone; zero where it is not known
	Requests, KB  float64 // of a boot, both ways
	Connections   float64
	// MissingS is processor time that a run could not have, in seconds: what other
	// processes used, and what a virtual machine was not given.
	MissingS float64
	// FloorP50 and FloorP99 are as P50 and P99; zero without a floor.
	FloorP50, FloorP99 float64

	Retries       int64
	NotActive     int // ended in error or were refused
	Lost, Doubled int
}

// Rows sums up the runs of each value of which there is one, in the order in which
// the values were given.
func (s Sweep) Rows(measured []Measured) []Row {
	var rows []Row
	for i, value := range s.Values {
		var results []Result
		for _, m := range measured {
			if m.Value == value {
				results = append(results, m.Result)
			}
		}
		if len(results) > 0 {
			row := rowOf(results)
			row.Value, row.Text = value, s.texts[i]
			rows = append(rows, row)
		}
	}
	return rows
}

func rowOf(results []Result) Row {
	of := func(number func(Result) float64) float64 {
		var all []float64
		for _, r := range results {
			all = append(all, number(r))
		}
		return median(all)
	}
	row := Row{
		Runs:        len(results),
		BootsPerS:   of(func(r Result) float64 { return r.BootsPerS }),
		P50:         of(func(r Result) float64 { return r.AcceptedGrantedMS.P50 }),
		P99:         of(func(r Result) float64 { return r.AcceptedGrantedMS.P99 }),
		ActiveP99:   of(func(r Result) float64 { return r.ActiveMS.P99 }),
		CPUMS:       of(func(r Result) float64 { return 1000 * total(r.CPU.Share) / float64(max(r.Boots, 1)) }),
		OursMS:      of(func(r Result) float64 { return 1000 * r.CPU.Berth / float64(max(r.Boots, 1)) }),
		CentreMS:    of(func(r Result) float64 { return r.CPU.centreMS() }),
		Requests:    of(func(r Result) float64 { return perBoot(r.Requests) }),
		KB:          of(func(r Result) float64 { return bytesPerBoot(r.Bytes) / 1000 }),
		Connections: of(func(r Result) float64 { return float64(r.Connections) }),
		MissingS:    of(func(r Result) float64 { return r.CPU.missing() }),
		FloorP50:    of(func(r Result) float64 { return r.floorGranted().P50 }),
		FloorP99:    of(func(r Result) float64 { return r.floorGranted().P99 }),
	}
	for _, r := range results {
		row.Retries += r.Retries
		row.NotActive += r.Error + r.Refused
		row.Lost += r.Lost
		row.Doubled += r.Doubled
	}
	return row
}

// median is the one in the middle, or between the two in the middle.
func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// centreMS is zero where it is not known.
func (c CPU) centreMS() float64 {
	if c.CentreMS == nil {
		return 0
	}
	return *c.CentreMS
}

// missing is what a run could not have, as far as it is known.
func (c CPU) missing() float64 {
	sum := 0.0
	for _, s := range []*float64{c.Others, c.Stolen} {
		if s != nil {
			sum += *s
		}
	}
	return sum
}

func (r Result) floorGranted() Quantiles {
	if r.Floor == nil {
		return Quantiles{}
	}
	return r.Floor.AcceptedGrantedMS
}

// bytesPerBoot adds up Berth's own, both ways.
func bytesPerBoot(b map[lab.Role]Bytes) float64 {
	sum := 0.0
	for role, part := range b {
		if role != lab.RoleLoad {
			sum += part.Sent + part.Received
		}
	}
	return round(sum)
}

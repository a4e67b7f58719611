// SPDX-License-Identifier: Apache-2.0

package size

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// bench is a machine like the one that was measured: one broker and everything else
// on two processors.
func bench(m Mode, hosts, queues int, rate float64, count int) Options {
	o := DefaultOptions()
	o.Mode, o.Hosts, o.Queues, o.Rate, o.Requests = m, hosts, queues, rate, count
	o.Brokers, o.Processors, o.Replication, o.Conductors, o.Partitions, o.Projects = 1, 2, 1, 1, 4, 16
	o.HostSize = 5 * count / hosts // the warm-up had room too
	o.Shared, o.Hop, o.Journal = true, 20*time.Microsecond, time.Millisecond
	return o
}

// measured is what a row was measured at. Zero: it was not.
type measured struct {
	row                  string
	o                    Options
	rate, p50, p99, each float64 // boots/s, ms, ms, ms of processor a boot; all zero: not measured yet
	off                  string  // which columns are known to be off by more than 30 %
}

func claims(hosts, queues, listed int, wait time.Duration, rate float64, count int) Options {
	o := bench(Claims, hosts, queues, rate, count)
	o.Waiters, o.Wait, o.Pace = hosts*listed/queues, wait, 100*time.Millisecond
	return o
}

func floor(hosts, queues int, rate float64, count int) Options {
	o := bench(Floor, hosts, queues, rate, count)
	o.Waiters = 8
	return o
}

// transacted is a floor as it was measured before decision 0026.
func transacted(hosts, queues int, rate float64, count int) Options {
	o := floor(hosts, queues, rate, count)
	o.Costs.Transaction = 1800 * time.Microsecond
	return o
}

// before33 is Berth as it was measured before decision 0033: advice each second.
func before33(hosts, queues int, rate float64, count int) Options {
	o := bench(Berth, hosts, queues, rate, count)
	o.Pace = time.Second
	return o
}

func rows() []measured {
	half, five := 500*time.Millisecond, 5*time.Second
	return []measured{
		{"claims, 1,000 agents, 100 queues, 2 listed, burst", claims(1000, 100, 2, half, 0, 20000), 5524, 0, 0, 0, ""},
		{
			"claims, 1,000 agents, 100 queues, 10 listed, burst",
			claims(1000, 100, 10, half, 0, 20000),
			2846,
			0,
			0,
			0,
			"",
		},
		{"claims, 1,000, 100, 2, 5 s, 500/s", claims(1000, 100, 2, five, 500, 5000), 500, 1.1, 12.7, 0, "p50"},
		{"claims, 1,000, 100, 2, 0.5 s, 500/s", claims(1000, 100, 2, half, 500, 5000), 500, 9.5, 351, 0, "p50 p99"},
		{"claims, 1,000, 100, 10, 5 s, 500/s", claims(1000, 100, 10, five, 500, 5000), -1, 1441, 4299, 0, "p99"},
		{
			"claims, 1,000, 10, 10, 5 s, 500/s",
			claims(1000, 10, 10, five, 500, 5000),
			226,
			5315,
			6636,
			0,
			"rate p50 p99",
		},
		{"claims, 100, 100, 8, 5 s, 500/s", claims(100, 100, 8, five, 500, 5000), 500, 3.0, 124, 0, "p50 p99"},
		{"claims, 1, 100, 100, 5 s, 200/s", claims(1, 100, 100, five, 200, 2000), 200, 1.7, 13.3, 0, "p50 p99"},
		{"floor, 100 agents, 10 × 8, 100/s", transacted(100, 10, 100, 2000), 100, 5.1, 43, 0, "p50 p99"},
		{"floor of 0026, 100 agents, 10 × 8, 100/s", floor(100, 10, 100, 2000), 100, 3.2, 13.2, 0, ""},
		{"floor, 100, 10 × 8, 300/s", transacted(100, 10, 300, 3000), 300, 21, 239, 0, "p50 p99"},
		{"floor, 1,000, 100 × 8, 500/s", transacted(1000, 100, 500, 5000), 500, 26, 284, 5, "p50 p99 cpu"},
		{"floor, 1,000, 100 × 8, 1,000/s", transacted(1000, 100, 1000, 10000), 984, 257, 1474, 2.7, "p50 p99 cpu"},
		{"floor, 1,000, 100 × 8, 2,000/s", transacted(1000, 100, 2000, 20000), 1651, 0, 0, 1.5, "cpu"},
		{"Berth, 100 hosts, 10 queues, 100/s", bench(Berth, 100, 10, 100, 2000), 99.8, 4.4, 18, 11.4, ""},
		{"Berth, 100 hosts, 10 queues, 500/s", bench(Berth, 100, 10, 500, 5000), 487, 172, 427, 3.9, "p50 p99"},
		{
			"Berth before 0033, 1,000 hosts, 100 queues, 200/s",
			before33(1000, 100, 200, 4000),
			186,
			1255,
			2929,
			10.4,
			"p50 p99 cpu",
		},
		{"Berth, 1,000 hosts, 100 queues, 200/s", bench(Berth, 1000, 100, 200, 4000), 0, 0, 0, 0, ""},
		{"Berth, 3,000 hosts, 100 queues, 100/s", bench(Berth, 3000, 100, 100, 4000), 0, 0, 0, 0, ""},
		{"Berth, 3,000 hosts, 100 queues, 200/s", bench(Berth, 3000, 100, 200, 4000), 0, 0, 0, 0, ""},
		{"Berth, 3,000 hosts, 300 queues, 200/s", bench(Berth, 3000, 300, 200, 4000), 0, 0, 0, 0, ""},
		{"Berth, 3,000 hosts, 100 queues, burst of 2,000", func() Options {
			o := bench(Berth, 3000, 100, 200, 2000)
			o.Burst = 2000
			return o
		}(), 0, 0, 0, 0, ""},
	}
}

// How far the model may be off before the table has to say so.
const near = 0.3

// Each number is within 30 % of what was measured, or known not to be. With -v it prints
// them as a table.
func TestCalibration(t *testing.T) {
	for _, m := range rows() {
		r := run(t, m.o)
		var cells, off []string
		for _, x := range []struct {
			name       string
			model, was float64
		}{
			{"rate", r.BootsPerS, m.rate}, {"p50", r.GrantedMS.P50, m.p50},
			{"p99", r.GrantedMS.P99, m.p99}, {"cpu", r.CPUPerBoot, m.each},
		} {
			cell := shown(x.model)
			if x.was > 0 {
				cell += " / " + shown(x.was)
			}
			if x.was > 0 && math.Abs(x.model/x.was-1) > near {
				cell, off = cell+fmt.Sprintf(" (%+.0f %%)", 100*(x.model/x.was-1)), append(off, x.name)
			}
			cells = append(cells, cell)
		}
		if got := strings.Join(off, " "); m.rate != 0 && got != m.off {
			t.Errorf("%s: off are %q, known are %q", m.row, got, m.off)
		}
		t.Logf("| %s | %s |", m.row, strings.Join(cells, " | "))
	}
}

func shown(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

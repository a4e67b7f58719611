// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// rampFigure is the curve that has the knee.
func rampFigure(r result) figure {
	p50, p99 := series{name: "p50", look: first}, series{name: "p99", look: second}
	for _, s := range r.Ramp.Steps {
		p50.points = append(p50.points, point{s.Rate, s.ActiveMS.P50})
		p99.points = append(p99.points, point{s.Rate, s.ActiveMS.P99})
	}
	p := panel{
		title: "From when a boot was due until it ran", x: axis{label: unitOf("rate")},
		y:      axis{label: "ms", zero: true},
		series: []series{p50, p99},
	}
	knee := "no rate kept up"
	if k := r.Ramp.Knee; k != nil {
		knee = fmt.Sprintf("knee at %v/s", k.Rate)
		p.mark = &mark{k.Rate, knee}
	}
	// The load is the axis.
	f := figure{title: "berth bench --ramp", lines: []string{r.setting("rate")}, panels: []panel{p}}
	f.lines = append(f.lines, knee+": "+r.Ramp.Ended, fmt.Sprintf("%d lost, %d doubled", r.Lost, r.Doubled))
	return f
}

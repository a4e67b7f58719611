// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// axis is one of a panel. It is logarithmic when its numbers span more than a
// decade.
type axis struct {
	label string
	zero  bool // begins with zero where it is not logarithmic
}

// spans says that numbers span more than a decade. With zero among them, or what is
// below it, there is no logarithm.
func spans(numbers []float64) bool {
	least := slices.Min(numbers)
	return least > 0 && slices.Max(numbers)/least > 10
}

// ticker says where an axis of some numbers has ticks. norm is where on it, from 0
// to 1, a number is.
type ticker func(numbers []float64, from, until float64, norm func(float64) float64) []plot.Tick

func (a axis) set(to *plot.Axis, numbers []float64, ticks ticker) {
	least, most := slices.Min(numbers), slices.Max(numbers)
	if spans(numbers) {
		to.Scale = plot.LogScale{}
		to.Min, to.Max = least/1.2, most*1.2
	} else {
		room := (most - least) * 0.06
		if room == 0 {
			room = max(math.Abs(most)/2, 1)
		}
		to.Min, to.Max = least-room, most+room
		if a.zero {
			to.Min = min(least, 0)
		}
	}
	to.Label.Text = a.label
	to.Label.TextStyle = words(textSize, false, draw.XCenter)
	to.Label.Padding = vg.Points(4)
	to.Color, to.Tick.Color, to.Tick.Label.Color = ink(), ink(), ink()
	to.LineStyle.Width, to.Tick.LineStyle.Width = vg.Points(0.6), vg.Points(0.6)
	to.Tick.Label.Font = words(textSize-1, false, draw.XCenter).Font
	to.Padding = 0
	to.Tick.Marker = plot.ConstantTicks(ticks(numbers, to.Min, to.Max, to.Norm))
}

// apart is how far labels of values have to be from each other, as a share of the
// axis.
const apart = 0.09

// atValues has a tick at each value that was measured, and a label where the one
// before leaves room: nothing lies between them that anybody measured.
func atValues(values []float64, _, _ float64, norm func(float64) float64) []plot.Tick {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	var ticks []plot.Tick
	before := math.Inf(-1)
	for _, v := range values {
		t := plot.Tick{Value: v}
		if at := norm(v); at-before >= apart {
			t.Label, before = number(v), at
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// rounded has ticks at round numbers.
func rounded(numbers []float64, from, until float64, _ func(float64) float64) []plot.Tick {
	if spans(numbers) {
		return decades(from, until)
	}
	const about = 5
	step := math.Pow10(int(math.Floor(math.Log10((until - from) / about))))
	for _, by := range []float64{1, 2, 5, 10} {
		if (until-from)/(by*step) <= about+1 {
			step *= by
			break
		}
	}
	var ticks []plot.Tick
	for n := math.Ceil(from / step); n*step <= until; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: number(n * step)})
	}
	return ticks
}

// decades has labels at powers of ten, and at 2 and 5 times those where there are
// few.
func decades(from, until float64) []plot.Tick {
	few := until/from < 2000
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(from)); math.Pow(10, power) <= until; power++ {
		for by := 1.0; by < 10; by++ {
			t := plot.Tick{Value: by * math.Pow(10, power)}
			if t.Value < from || t.Value > until {
				continue
			}
			if by == 1 || few && (by == 2 || by == 5) {
				t.Label = number(t.Value)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// number is one as people write it: 10,000 and 0.25.
func number(x float64) string {
	text := strconv.FormatFloat(x, 'g', 6, 64)
	if whole := math.Round(x); math.Abs(x-whole) < 1e-9 && math.Abs(x) < 1e15 {
		text = strconv.FormatFloat(whole, 'f', 0, 64)
		for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
	}
	return text
}

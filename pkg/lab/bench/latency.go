// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"slices"
	"time"
)

// Quantiles sum up how long something took, in milliseconds. They are exact:
// every measurement is kept and sorted, no bucket rounds it.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// quantiles of what was measured; all zero of nothing. The p-th is the smallest
// measurement that p in a hundred do not exceed.
func quantiles(took []time.Duration) Quantiles {
	if len(took) == 0 {
		return Quantiles{}
	}
	took = slices.Sorted(slices.Values(took))
	at := func(p float64) float64 {
		i := int(math.Ceil(p/100*float64(len(took)))) - 1
		return millis(took[max(i, 0)])
	}
	return Quantiles{P50: at(50), P90: at(90), P99: at(99), Max: millis(took[len(took)-1])}
}

// millis is a duration in milliseconds, to the microsecond.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

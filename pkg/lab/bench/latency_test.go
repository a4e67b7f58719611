// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantilesOfAHundred(t *testing.T) {
	var took []time.Duration
	for i := 100; i > 0; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	if got, want := quantiles(took), (Quantiles{P50: 50, P90: 90, P99: 99, Max: 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if took[0] != 100*time.Millisecond {
		t.Error("what was measured was put in another order")
	}
	if got := quantiles(nil); got != (Quantiles{}) {
		t.Errorf("of nothing: %+v", got)
	}
	if got, want := quantiles([]time.Duration{1500 * time.Microsecond}), (Quantiles{1.5, 1.5, 1.5, 1.5}); got != want {
		t.Errorf("of one: %+v, want %+v", got, want)
	}
}

// The p-th is a measurement, at least p in a hundred are not above it, and fewer
// than that are below it.
func TestQuantilesAreWhatTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := rapid.SliceOfN(
			rapid.Map(
				rapid.IntRange(-5, 200),
				func(n int) time.Duration { return time.Duration(n) * time.Millisecond },
			),
			1,
			500,
		).Draw(
			t,
			"took",
		)
		q := quantiles(took)
		for p, got := range map[float64]float64{50: q.P50, 90: q.P90, 99: q.P99, 100: q.Max} {
			below, upTo := 0, 0
			for _, d := range took {
				if millis(d) < got {
					below++
				}
				if millis(d) <= got {
					upTo++
				}
			}
			if n := float64(len(took)) * p / 100; float64(upTo) < n || float64(below) >= n || upTo == below {
				t.Fatalf("p%v = %v: %d below, %d up to it, of %d", p, got, below, upTo, len(took))
			}
		}
	})
}

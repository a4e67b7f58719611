// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// steps climbs on a cell that does at most so many boots a second, whose p99
// takes as long as given for each rate.
func steps(t *testing.T, capacity float64, p99 func(rate float64) float64) Ramp {
	t.Helper()
	ramp, err := climb(Options{Rate: 100}.WithDefaults(), func(_ int, rate float64) (Step, error) {
		return Step{Rate: rate, BootsPerS: min(rate, capacity), ActiveMS: Quantiles{P99: p99(rate)}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ramp
}

func TestTheKneeIsTheLastRateThatKeptUp(t *testing.T) {
	fast := func(float64) float64 { return 10 }
	for _, c := range []struct {
		name     string
		capacity float64
		p99      func(rate float64) float64
		steps    int
		knee     float64
		ended    string
	}{
		{"too much for it", 300, fast, 4, 225, "at 337.5/s only 300 boots/s became active"},
		{"nine tenths are enough", 305, fast, 5, 337.5, "at 506.25/s only 305 boots/s became active"},
		{
			"too slow", 1e6, func(rate float64) float64 { return 4 * rate }, 4, 225,
			"at 337.5/s the p99 of active is 1350 ms, more than 1000",
		},
		{"too much from the beginning", 50, fast, 1, 0, "at 100/s only 50 boots/s became active"},
		{
			"more than was asked", 1e6, fast, 12, 8649.756,
			"all 12 steps kept up: give a higher --rate, or more --ramp-steps",
		},
	} {
		r := steps(t, c.capacity, c.p99)
		knee := 0.0
		if r.Knee != nil {
			knee = r.Knee.Rate
		}
		if len(r.Steps) != c.steps || knee != c.knee || r.Ended != c.ended {
			t.Errorf(
				"%s: %d steps, knee %v, %q; want %d, %v, %q",
				c.name,
				len(r.Steps),
				knee,
				r.Ended,
				c.steps,
				c.knee,
				c.ended,
			)
		}
	}
}

func TestARampEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	r, err := climb(Options{}.WithDefaults(), func(n int, rate float64) (Step, error) {
		if n == 1 {
			return Step{}, broken
		}
		return Step{Rate: rate, BootsPerS: rate}, nil
	})
	if !errors.Is(err, broken) || len(r.Steps) != 1 {
		t.Errorf("%v after %d steps", err, len(r.Steps))
	}
}

// Every step lasts as long as the first, and hosts have room for the largest.
func TestARampHasRoomForItsLastStep(t *testing.T) {
	o := Options{Hosts: 3, Count: 100, Ramp: true, RampSteps: 5}.WithDefaults()
	c, _, _, err := plan(o)
	if err != nil {
		t.Fatal(err)
	}
	chosen := c.chooseSteps(o)
	if n := []int{len(chosen), len(chosen[0]), len(chosen[1]), len(chosen[4])}; n[0] != 5 || n[1] != 100 ||
		n[2] != 150 ||
		n[3] != 506 {
		t.Errorf("%v boots", n)
	}
	if most := c.needs(o.fleet(), chosen[4]); c.size < most {
		t.Errorf("room for %d machines on a host, the last step needs %d", c.size, most)
	}
	o.HostSize = 100
	if _, _, _, err := plan(o); err == nil || !strings.Contains(err.Error(), "host-size") {
		t.Errorf("too small hosts: %v", err)
	}
	if o.RampP99 != time.Second {
		t.Errorf("a p99 of %s is allowed", o.RampP99)
	}
}

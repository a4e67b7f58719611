// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math"
)

// Ramp is what open load at rising rates found, on one cell that went on running.
type Ramp struct {
	Steps []Step `json:"steps"`
	// Knee is the last step that kept up; nil: none did. The numbers of the result
	// are that step's, or the first one's.
	Knee  *Step  `json:"knee"`
	Ended string `json:"ended"` // why there was no further step
}

// Step is one rate. Each lasts as long as the first.
type Step struct {
	Rate              float64   `json:"rate"` // that was offered
	Boots             int       `json:"boots"`
	Active            int       `json:"active"`
	BootsPerS         float64   `json:"boots_per_s"`
	AcceptedGrantedMS Quantiles `json:"accepted_granted_ms"`
	ActiveMS          Quantiles `json:"active_ms"`
	Retries           int64     `json:"retries"`
	CPU               CPU       `json:"cpu_s"`
}

const (
	// rampFactor is from one rate to the next.
	rampFactor = 1.5
	// keptUp is how much of what was offered must have gone through.
	keptUp = 0.9
)

// steeper is what the n-th step has of what the first has.
func steeper(first float64, n int) float64 { return first * math.Pow(rampFactor, float64(n)) }

// climb measures step after step until one does not keep up.
func climb(o Options, measure func(n int, rate float64) (Step, error)) (Ramp, error) {
	var ramp Ramp
	for n := range o.RampSteps {
		s, err := measure(n, round(steeper(o.Rate, n)))
		if err != nil {
			return ramp, err
		}
		ramp.Steps = append(ramp.Steps, s)
		if ramp.Ended = s.behind(millis(o.RampP99)); ramp.Ended != "" {
			return ramp, nil
		}
		ramp.Knee = &s
	}
	ramp.Ended = fmt.Sprintf("all %d steps kept up: give a higher --rate, or more --ramp-steps", o.RampSteps)
	return ramp, nil
}

// behind says in what a step did not keep up; empty: it did.
func (s Step) behind(mostP99 float64) string {
	switch {
	case s.BootsPerS < keptUp*s.Rate:
		return fmt.Sprintf("at %v/s only %v boots/s became active", s.Rate, s.BootsPerS)
	case s.ActiveMS.P99 > mostP99:
		return fmt.Sprintf("at %v/s the p99 of active is %v ms, more than %v", s.Rate, s.ActiveMS.P99, mostP99)
	}
	return ""
}

// ramp measures steps on the running cell. The machines of one are deleted
// before the next.
func (r *run) ramp(ctx context.Context, l *load) error {
	var best Result
	var boots []*boot
	chosen := r.cloud.chooseSteps(r.o)
	ramp, err := climb(r.o, func(n int, rate float64) (Step, error) {
		if n > 0 {
			if err := r.clear(ctx, l, boots); err != nil {
				return Step{}, err
			}
		}
		boots = newBoots(fmt.Sprintf("step-%d", n), chosen[n], r.o.Projects)
		o := r.o
		o.Rate = rate
		if err := r.measured(ctx, l, o, boots); err != nil {
			return Step{}, err
		}
		s := r.result.step(rate)
		r.say("  %v boots/s, p99 of active %v ms", s.BootsPerS, s.ActiveMS.P99)
		if n == 0 || s.behind(millis(o.RampP99)) == "" {
			best, r.boots = r.result, boots
		}
		return s, nil
	})
	r.result = best
	r.result.Ramp = &ramp
	return err
}

func (r Result) step(rate float64) Step {
	return Step{
		Rate: rate, Boots: r.Boots, Active: r.Active, BootsPerS: r.BootsPerS,
		AcceptedGrantedMS: r.AcceptedGrantedMS, ActiveMS: r.ActiveMS, Retries: r.Retries, CPU: r.CPU,
	}
}

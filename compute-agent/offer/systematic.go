// SPDX-License-Identifier: Apache-2.0

package offer

import "math"

// Systematic is a systematic sample of queues. Their chances are laid end to end, in an order of the host's
// own, and those are chosen that hold one of the points u, u+1, u+2, …, where u is random: each with its
// chance, and as many as the chances add up to, a part of one more or less.
//
// Were each chosen by itself, hosts would wait on three queues or on none where one was meant. A
// fetch that ends costs a broker the queues it lists times those that others list
// beside them, so what counts is the mean of the squares, which is least where all list the same number.
type Systematic float64

// NewSystematic begins a sample with a number of which every bit is random.
func NewSystematic(random uint64) Systematic { return Systematic(fraction(random)) }

// Next says whether the next queue is chosen.
func (s *Systematic) Next(chance float64) bool {
	before := math.Floor(float64(*s))
	*s += Systematic(chance)
	return math.Floor(float64(*s)) > before
}

// fraction is a random number as a fraction of one.
func fraction(random uint64) float64 { return float64(random>>11) / (1 << 53) }

// SPDX-License-Identifier: Apache-2.0

package size

import (
	"math"
	"time"
)

// station is some processors with one line of work before them.
type station struct {
	processors float64
	free       int64   // when all that was asked of it is done
	busy       float64 // nanoseconds of processor so far
	pause      float64 // it stands still for so long
	between    float64 // after so much work
	since      float64 // work since it last did
}

// idle says whether work that comes now finds it with nothing to do.
func (s *station) idle(now int64) bool { return s.free <= now }

// do adds work and says when it is done: all processors share the line, and one piece
// is done by one of them.
func (s *station) do(now int64, work float64) int64 {
	begin := max(now, s.free)
	s.busy += work
	if s.since += work; s.between > 0 && s.since >= s.between {
		s.since = 0
		begin += int64(s.pause)
	}
	s.free = begin + int64(work/s.processors)
	return max(s.free, begin+int64(work/min(1, s.processors)))
}

// chance is a stream of numbers that a seed decides (splitmix64).
type chance uint64

func (c *chance) next() uint64 {
	*c += 0x9e3779b97f4a7c15
	return mix(uint64(*c))
}

func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// below is one of n numbers.
func (c *chance) below(n int) int { return int(c.next() % uint64(n)) }

// spread is an amount of work that takes mean on average: as long as e to the minus
// x is likely, as the way through a broker is, but never more than eight times.
func (c *chance) spread(mean time.Duration) float64 {
	u := float64(c.next()>>11+1) / (1 << 53)
	return float64(mean) * min(8, -math.Log(u))
}

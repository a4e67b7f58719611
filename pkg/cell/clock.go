// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// Clock is what a process's clock shows when it is another time than it shows. Only
// simulations have one; nil is right.
type Clock interface {
	Shows(now time.Time) time.Time
	When(shown time.Time) time.Time // the contrary
}

// Clocks gives a process a wrong clock.
type Clocks struct{ Clock }

func (c Clocks) now() func() time.Time {
	if c.Clock == nil {
		return nil
	}
	return func() time.Time { return c.Shows(time.Now()) }
}

// shown is what the clock showed at a time; never is never.
func (c Clocks) shown(at time.Time) time.Time {
	if c.Clock == nil || at.IsZero() {
		return at
	}
	return c.Shows(at)
}

// handler decides by a wrong clock what a loop reads by the right one.
func (c Clocks) handler(h wire.Handler) wire.Handler {
	if c.Clock == nil {
		return h
	}
	return misled{h, c.Clock}
}

type misled struct {
	wire.Handler
	clock Clock
}

func (m misled) Turn(in wire.Turn) wire.Result {
	in.Now = m.clock.Shows(in.Now)
	until := map[int32]time.Time{}
	for p, at := range in.TimersUntil {
		until[p] = m.clock.Shows(at)
	}
	in.TimersUntil = until
	return m.right(m.Handler.Turn(in))
}

func (m misled) Restored(p int32, cursor int64, now time.Time) wire.Result {
	return m.right(m.Handler.Restored(p, cursor, m.clock.Shows(now)))
}

func (m misled) right(r wire.Result) wire.Result {
	if !r.Wake.IsZero() {
		r.Wake = m.clock.When(r.Wake)
	}
	return r
}

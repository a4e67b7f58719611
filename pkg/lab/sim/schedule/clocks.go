// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/cell"
)

// Clock is a clock of a process that is wrong: by so much at the beginning of the bubble, and
// by so many seconds more each second.
type Clock struct {
	Who   string  `json:"who"`
	Off   Seconds `json:"off,omitempty"`
	Drift float64 `json:"drift,omitempty"`
}

var _ cell.Clock = Clock{}

// bubble is when time begins in a testing/synctest bubble.
var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Shows is what the clock shows at a time.
func (c Clock) Shows(now time.Time) time.Time {
	return now.Add(c.Off.Duration() + time.Duration(c.Drift*float64(now.Sub(bubble))))
}

// When is the time at which the clock shows something.
func (c Clock) When(shown time.Time) time.Time {
	since := float64(shown.Sub(bubble) - c.Off.Duration())
	return shown.Add(time.Duration(since/(1+c.Drift)) - shown.Sub(bubble))
}

// Kind is what the report of a run counts it as.
func (c Clock) Kind() string {
	who, _, _ := strings.Cut(c.Who, "-")
	return "clock " + who
}

// ClockOf is the clock of a process; nil: it is right.
func (w World) ClockOf(process string) cell.Clock {
	for _, c := range w.Clocks {
		if c.Who == process {
			return c
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Made-up keys fill what a host says is lacking for a minute at most, and nothing is said for ever.
func TestLacking(t *testing.T) {
	var l lacking
	now := time.Unix(1000, 0)
	for i := range mostLacking {
		if !l.note(fmt.Sprint("made up ", i), now) || l.note(fmt.Sprint("made up ", i), now) {
			t.Errorf("%d is new twice, or never", i)
		}
	}
	if l.note("true", now) || slices.Contains(l.list(now), "true") {
		t.Error("there is no bound")
	}
	now = now.Add(lackingSure)
	for i := range mostLacking - 1 {
		l.note(fmt.Sprint("made up ", i), now) // again
	}
	if !l.note("true", now) || !slices.Contains(l.list(now), "true") || slices.Contains(l.list(now), "made up 3") {
		t.Errorf("%q", l.list(now))
	}
	now = now.Add(lackingFor / 2)
	if before := l.list(now); l.note("made up 0", now) || !slices.Equal(l.list(now), before) {
		t.Errorf("%q, then %q", before, l.list(now))
	}
	if now = now.Add(lackingFor / 2); !slices.Equal(l.list(now), []string{"made up 0"}) {
		t.Errorf("after an hour: %q", l.list(now))
	}
	if now = now.Add(lackingFor / 2); len(l.list(now)) > 0 || !l.note("made up 0", now) {
		t.Error("nothing is forgotten")
	}
}

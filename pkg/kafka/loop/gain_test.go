// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"testing"
)

// What a gain that was called off still finds, and be it why it could not go on, is not heard: it would end the
// session, and with it all other partitions.
func TestNothingComesOfAGainThatWasCalledOff(t *testing.T) {
	const tries = 64 // of what chance decides
	r := &loopRun{found: make(chan gained, tries)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range tries {
		r.hand(ctx, gained{err: ctx.Err()})
	}
	if n := len(r.found); n > 0 {
		t.Errorf("heard %d times", n)
	}
}

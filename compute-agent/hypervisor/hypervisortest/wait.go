// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"context"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// Patience is longer than any guest takes to boot or to shut down, on a machine that is busy and has no KVM. No test
// that passes waits for it.
const Patience = 8 * time.Minute

// Waiting is the context of one wait, in a cleanup as well: it ends after Patience, or a little before the time of all
// tests does, which would say less of what was waited for.
func Waiting(t *testing.T) (context.Context, context.CancelFunc) {
	until := time.Now().Add(Patience)
	if end, has := t.Deadline(); has && end.Add(-time.Minute).Before(until) {
		until = end.Add(-time.Minute)
	}
	return context.WithDeadline(context.Background(), until)
}

// Await looks until it is so.
func Await(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := Waiting(t)
	defer cancel()
	for !so() {
		if !hypervisor.Pause(ctx, 20*time.Millisecond) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Receive is the next that comes from a channel; if it is closed, nothing.
func Receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := Waiting(t)
	defer cancel()
	select {
	case x := <-from:
		return x
	case <-ctx.Done():
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

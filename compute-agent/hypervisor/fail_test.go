// SPDX-License-Identifier: Apache-2.0

package hypervisor_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// late is a context whose deadline has passed, and whose timer has not run yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

// TestOver: what a call with the context's deadline answers is the context's end, whichever of the two is first. A Stop
// that was broken off had cut a guest off without its grace.
func TestOver(t *testing.T) {
	ctx := late{t.Context()}
	if err := hypervisor.Over(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past its deadline it answers %v", err)
	}
	if err := hypervisor.Classed(ctx, "stop", os.ErrDeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past its deadline a call answers %v", err)
	}
	if err := hypervisor.Over(t.Context()); err != nil {
		t.Errorf("a context that goes on answers %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	if cancel(); !errors.Is(hypervisor.Over(cancelled), context.Canceled) {
		t.Error("one that was cancelled is not over")
	}
}

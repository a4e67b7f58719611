// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"context"
	"time"
)

// Over is why a context is over; nil: it is not. A call with its deadline may end before its own timer has run.
func Over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if until, is := ctx.Deadline(); is && !time.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return nil
}

// Pause waits a little for what tells nobody when it is done, or until ctx ends;
// it says whether ctx has not.
func Pause(ctx context.Context, long time.Duration) bool {
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

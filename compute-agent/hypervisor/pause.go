// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"context"
	"time"
)

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

// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// linger is short beside the seconds in which machines start and go, and
// long enough for the next request or claim of a busy cloud.
const linger = 20 * time.Millisecond

// Linger is how long a report may wait for others to be decided together with
// it. What has happened on a host and frees nobody to go on waits; claims, and
// all that somebody else's work hangs on, do not.
func Linger(report wire.Record) time.Duration {
	r, err := wire.DecodeReport(report)
	if err == nil && (r.Op == compute.ReportStarted || r.Op == compute.ReportGone) {
		return linger
	}
	return 0
}

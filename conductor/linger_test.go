// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Only reports of what has happened already, and keeps nobody waiting, linger.
func TestLinger(t *testing.T) {
	for op := compute.ReportClaim; op <= compute.ReportPreempt; op++ {
		rec := wire.EncodeReport(compute.Report{
			Op: op, Project: "p", Instance: "00000000-0000-4000-8000-000000000001", Host: "h", Attempt: 1,
			Claim: "c", Journal: "j",
			Class: compute.FailureTimeout, Power: compute.PowerRunning, Message: "m", Command: "c", At: time.Unix(1, 0),
		})
		if _, err := wire.DecodeReport(rec); err != nil {
			t.Fatal(err)
		}
		patient := op == compute.ReportStarted || op == compute.ReportGone
		if got := Linger(rec); (got > 0) != patient {
			t.Errorf("%s: %s", op, got)
		}
	}
	if got := Linger(wire.Record{Value: []byte("\xff")}); got != 0 {
		t.Errorf("what cannot be read waits for %s before it is rejected", got)
	}
}

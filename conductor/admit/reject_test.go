// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// A report that names no host, says nothing that is known, or is about nothing, is
// rejected with why, whatever let it through before.
func TestReportsThatMakeNoSenseAreRejected(t *testing.T) {
	good := compute.Report{
		Op: compute.ReportStarted, Host: "h1", Project: "p", Instance: "00000000-0000-0000-0000-000000000001",
	}
	for name, change := range map[string]func(*compute.Report){
		"no host":     func(r *compute.Report) { r.Host = "" },
		"no word":     func(r *compute.Report) { r.Op = compute.ReportNone },
		"no project":  func(r *compute.Report) { r.Project = "" },
		"no instance": func(r *compute.Report) { r.Instance = "" },
		"no claim":    func(r *compute.Report) { r.Op, r.Attempt = compute.ReportClaim, 1 },
		"no attempt":  func(r *compute.Report) { r.Op, r.Claim = compute.ReportClaim, "c1" },
	} {
		r := good
		change(&r)
		out := fresh(t).step(Reported{Report: r}, catalog(), epoch)
		if out.Rejected == nil || out.Rejected.Detail == "" || len(out.Changed)+len(out.Effects) > 0 {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

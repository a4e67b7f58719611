// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// BenchmarkAmongMany boots, claims, starts and deletes one instance beside many
// others: the time must not depend on how many there are.
func BenchmarkAmongMany(b *testing.B) {
	for _, many := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			s, view := New(Defaults()), catalog()
			boot := func(n int) {
				s.Step(Requested{Request: compute.Request{
					Op: compute.OpBoot, Project: "p", Instance: long(fmt.Sprint(n)),
					Boot: &compute.Boot{Flavor: "m1.small"},
				}}, view, epoch)
			}
			for n := range many {
				boot(n)
			}
			b.ResetTimer()
			for i := range b.N {
				n := many + i
				boot(n)
				r := compute.Report{
					Op: compute.ReportClaim, Project: "p", Instance: long(fmt.Sprint(n)), Host: "h1",
					Attempt: 1, Claim: "c1",
				}
				s.Step(Reported{Report: r}, view, epoch)
				r.Op = compute.ReportStarted
				s.Step(Reported{Report: r}, view, epoch)
				s.Step(
					Requested{Request: compute.Request{Op: compute.OpDelete, Project: "p", Instance: r.Instance}},
					view, epoch,
				)
				r.Op = compute.ReportGone
				s.Step(Reported{Report: r}, view, epoch)
				s.Step(Tick{Until: epoch.Add(time.Second)}, view, epoch)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

const (
	lieEvery = 50 * time.Millisecond // faster than most hosts prepare
	// noEpoch is one that no stream reaches.
	noEpoch compute.FenceEpoch = 1 << 62
)

// lie writes lies about each instance that there are any about, once for each attempt and state of it, until the
// fault ends.
func (w *play) lie(f schedule.Fault) {
	w.lasts(f.For, nil)
	told, came := map[string]bool{}, false
	defer func() {
		if came {
			w.rec.CountFault(f)
		}
	}()
	for end := time.Now().Add(f.For.Duration()); time.Now().Before(end) && w.sleep(lieEvery); {
		for n, i := range w.byID() {
			x, ok := w.lieAbout(f, i, n)
			about := fmt.Sprint(i.ID, i.Attempt, i.State)
			came = came || claimedByLie(i)
			if !ok || told[about] || x.Check() != nil {
				continue
			}
			told[about] = true
			rec := wire.EncodeReport(x).To(
				wire.Topics{Prefix: prefix}.Reports(), wire.Partition(x.Project, w.World.Partitions),
			)
			ctx, cancel := context.WithTimeout(w.ours.Life, time.Second)
			err := w.clients.producer.Send(ctx, rec)
			cancel()
			w.rec.AddLie(judge.Lie{At: time.Now(), Report: x})
			came = came || err == nil && f.Key == schedule.LieAbsent
		}
	}
}

// lieAbout is what a stranger says about an instance.
func (w *play) lieAbout(f schedule.Fault, i compute.Instance, n int) (x compute.Report, ok bool) {
	x = compute.Report{Host: i.Host, Project: i.Project, Instance: i.ID, Attempt: i.Attempt, Claim: i.Claim, At: time.Now()}
	switch {
	case f.Key == schedule.LieAbsent:
		ops := []compute.ReportOp{compute.ReportReturned, compute.ReportGone, compute.ReportFailed}
		x.Op, x.Class, x.Message = ops[n%len(ops)], compute.FailureHost, "a stranger says so"
		x.Journal, x.Started = "stranger", w.rec.Start
		return x, i.Journal != "" && (i.State == compute.StateActive || i.State == compute.StateStarting)
	case i.State == compute.StateQueued:
		h, _ := w.Schedule.Host(compute.HostID(f.Who))
		x.Op, x.Host, x.Fence = compute.ReportClaim, h.ID, noEpoch
		x.Claim = compute.ClaimID(fmt.Sprintf("%s%s-%d", judge.LieClaim, i.ID[:8], i.Attempt))
		return x, w.mayClaim(h, i)
	}
	x.Op, x.Power = compute.ReportStarted, compute.PowerRunning
	return x, claimedByLie(i) && i.State == compute.StateStarting && !w.Forgets(i.Host) // which ends what is active
}

// claimedByLie says whether an instance was granted to a stranger.
func claimedByLie(i compute.Instance) bool { return strings.HasPrefix(string(i.Claim), judge.LieClaim) }

// mayClaim says whether nothing but who says it is wrong with a claim of a host.
func (w *play) mayClaim(h schedule.Host, i compute.Instance) bool {
	missing := func(t compute.Trait) bool { return !slices.Contains(h.Traits, t) }
	return i.Boot.Rules == nil && !slices.ContainsFunc(i.Required, missing) && !slices.Contains(i.Boot.Avoid, h.ID) &&
		(i.Boot.Host == "" || i.Boot.Host == h.ID) && !i.PublishAt.After(time.Now())
}

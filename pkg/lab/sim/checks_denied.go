// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Denied is one answer to a claim that a host was sent: no.
type Denied struct {
	Seen time.Time
	Host compute.HostID
	compute.Command
}

// checkDenied: a claim is answered in one way: a claim that the log grants is not denied, before
// that or for as long as the grant holds. A conductor that denies it does not own its project any
// more. Of twins neither is granted anything for as long as both are heard of.
func checkDenied(r *Recording) (wrong []Violation) {
	if r.Schedule.clones() || r.Schedule.Has(FaultRename) {
		return nil
	}
	for _, d := range r.Denials {
		for n, w := range r.Log {
			i := w.Instance
			granted := i.State == compute.StateStarting && i.ID == d.Instance && i.Claim == d.Claim && i.Host == d.Host
			if !granted || r.overBefore(n, d) {
				continue
			}
			wrong = append(wrong, broken("denied", i.ID, d.Seen,
				"the claim of attempt %d of %s by %s is denied at %s, and was granted at %s (%s)",
				d.Attempt, i.Boot.Name, d.Host, r.at(d.Seen), r.at(i.StartingAt), d.Reason)...)
			break
		}
	}
	return wrong
}

// overBefore says whether a grant of the log was over when a claim was denied: by what was
// seen, or by what the conductors say, whose clocks may differ.
func (r *Recording) overBefore(n int, d Denied) bool {
	granted := r.Log[n].Instance
	for _, w := range r.Log[n+1:] {
		i := w.Instance
		if i.ID == granted.ID && (i.Claim != granted.Claim || !i.State.OnHost() || i.State == compute.StateDeleting) {
			return !w.Seen.After(d.Seen) || !i.ChangedAt.After(d.At)
		}
	}
	return false
}

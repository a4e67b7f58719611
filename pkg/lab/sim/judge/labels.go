// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// labelled begins the value of every label that a client gives what is there already.
const labelled = "given-"

// Label is the value that the client gives with what it asks for n-th.
func Label(n int) string { return fmt.Sprintf("%s%d", labelled, n) }

// labelsGiven are the labels that clients gave instances which were there.
type labelsGiven map[compute.InstanceID]map[string]Ask // by value

func (r *Recording) labelsGiven() labelsGiven {
	all := labelsGiven{}
	for n, a := range r.Asks {
		if a.Op != schedule.LoadLabel {
			continue
		}
		if all[a.ID] == nil {
			all[a.ID] = map[string]Ask{}
		}
		all[a.ID][Label(n)] = a
	}
	return all
}

// without is the metadata without the labels that clients have asked for until then, which may be there or not.
func (g labelsGiven) without(id compute.InstanceID, metadata map[string]string, by time.Time) map[string]string {
	out := maps.Clone(metadata)
	maps.DeleteFunc(out, func(name, value string) bool {
		a, given := g[id][value]
		return given && a.Label == name && !a.Began.After(by)
	})
	if len(out) == 0 {
		return nil
	}
	return out
}

// checkLabels: a label that was given, as its client was told, is in the record in the end, unless the instance was deleted
// before, or the label was given another value since; and a record that has another label has no other news.
func checkLabels(r *Recording) (wrong []Violation) {
	last, deleted := map[compute.InstanceID]compute.Instance{}, map[compute.InstanceID]time.Time{}
	for _, w := range r.Log {
		old, i := last[w.Instance.ID], w.Instance
		last[i.ID] = i
		if !w.Removed && preempted(i) && (i.State == compute.StateDeleting || i.State.Ended()) {
			deleted[i.ID] = time.Time{} // no client has asked for that, and none knows when
		}
		if w.Removed || old.ID == "" || maps.Equal(old.Boot.Metadata, i.Boot.Metadata) {
			continue
		}
		if old.State != i.State || old.Attempt != i.Attempt || !old.ChangedAt.Equal(i.ChangedAt) || i.BootedAs == 0 {
			wrong = append(
				wrong,
				broken("labels", i.ID, w.Seen, "%s got other labels at %s, and is %s attempt %d, and was %s attempt %d",
					i.Boot.Name, r.At(w.Seen), i.State, i.Attempt, old.State, old.Attempt)...)
		}
	}
	for _, a := range r.Asks {
		if first, known := deleted[a.ID]; a.Op == schedule.LoadDelete && (!known || a.Began.Before(first)) {
			deleted[a.ID] = a.Began
		}
	}
	given := r.labelsGiven()
	for n, a := range r.Asks {
		i, known := last[a.ID]
		if first, ends := deleted[a.ID]; a.Op != schedule.LoadLabel || !a.OK || !known || i.Boot.Flavor == "" ||
			ends && !first.After(a.Answered) {
			continue
		}
		got := i.Boot.Metadata[a.Label]
		by, known := given[a.ID][got]
		before := known && by.OK && by.Answered.Before(a.Began)
		if got != Label(n) && (!known || before) {
			wrong = append(
				wrong,
				broken("labels", a.ID, a.Answered, "%s was given the label %s=%s at %s, and in the end it is %q",
					a.Name, a.Label, Label(n), r.At(a.Answered), got)...)
		}
	}
	return wrong
}

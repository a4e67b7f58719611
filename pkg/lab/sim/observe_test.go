// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// What is decided after partitions got other leaders is seen soon: the judge goes by when it was seen. Whether a fetch
// of the observers waits at a leader just then is chance.
func TestObserversFollowLeaders(t *testing.T) {
	if !schedule.Several {
		t.Skip("it needs several brokers: build with the tag synctests")
	}
	s := schedule.Generate(8000015)
	s.Faults = nil
	for _, at := range []schedule.Seconds{2, 3, 4, 5, 6, 7, 8, 9} {
		s.Faults = append(s.Faults, schedule.Fault{Kind: schedule.FaultLeaders, Who: "broker", At: at})
	}
	for n := range 8 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			rec, err := played(t, s)
			if err != nil {
				t.Fatal(err)
			}
			late, after, changed := 0, 0, map[compute.InstanceID]time.Time{}
			for _, w := range rec.Log {
				last := changed[w.Instance.ID]
				changed[w.Instance.ID] = w.Instance.ChangedAt // which a change of labels leaves as it was
				if w.Instance.ChangedAt.Equal(last) || !w.Instance.ChangedAt.After(rec.Start.Add(2*time.Second)) {
					continue
				}
				if after++; w.Seen.Sub(w.Instance.ChangedAt) > 5*time.Second {
					late++
				}
			}
			if late > 0 || after < 10 {
				t.Errorf("of %d records after leaders moved %d are seen more than 5 s after they were decided", after, late)
			}
		})
	}
}

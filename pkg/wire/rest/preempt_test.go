// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A boot that is preemptible is of the low class and has the usual grace where it does not say; what it says comes back.
func TestPreemptibleBoots(t *testing.T) {
	none, minute := Duration(0), Duration(time.Minute)
	for name, c := range map[string]struct {
		asked Boot
		want  compute.Preemptible
		field string
	}{
		"usual":    {Boot{Preemptible: &Preemptible{Then: "delete"}}, compute.Preemptible{Then: compute.ThenDelete, Grace: 30 * time.Second}, ""},
		"no grace": {Boot{Preemptible: &Preemptible{"requeue", &none}}, compute.Preemptible{Then: compute.ThenRequeue}, ""},
		"low":      {Boot{Priority: "low", Preemptible: &Preemptible{"requeue", &minute}}, compute.Preemptible{Then: compute.ThenRequeue, Grace: time.Minute}, ""},
		"normal":   {Boot{Priority: "normal", Preemptible: &Preemptible{Then: "delete"}}, compute.Preemptible{}, "priority"},
		"high":     {Boot{Priority: "high", Preemptible: &Preemptible{Then: "delete"}}, compute.Preemptible{}, "priority"},
		"no then":  {Boot{Preemptible: &Preemptible{}}, compute.Preemptible{}, "preemptible.then"},
	} {
		got, err := c.asked.Compute()
		switch {
		case c.field != "":
			if err == nil || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || got.Preemptible() != c.want || got.Priority() != compute.PriorityLow:
			t.Errorf("%s: %+v of %s, %v", name, got.Preemptible(), got.Priority(), err)
		default:
			again, err := FromBoot("p", "", got).Compute()
			if err != nil || again.Preemptible() != c.want || again.Priority() != compute.PriorityLow {
				t.Errorf("%s comes back as %+v of %s, %v", name, again.Preemptible(), again.Priority(), err)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// What ends with its set is told apart from what the host had.
func TestFatesOfOthers(t *testing.T) {
	dead := client.HostDead{
		Instances: map[string]int{"active": 1}, Becomes: map[string]int{"ended": 1}, Others: 2,
		Fates: []client.HostFate{
			{ID: "1", Project: "p", Name: "a", State: "active", Becomes: compute.FateEnded, Reason: compute.HostLost},
			{
				ID: "2", Project: "p", Name: "b", State: "active", Becomes: compute.FateDeleted, Reason: compute.SetFailed,
				Other: true,
			},
		},
	}
	want := "1 instance (1 active): 1 ended, and 2 of other hosts or queues end with their sets"
	if got := fateOf(dead); got != want {
		t.Errorf("%q, not %q", got, want)
	}
	want = "a (p, 1), active: ended as HostLost\nb (p, 2), active: deleted as SetFailed, not of this host\nand 1 more"
	if got := fates(dead); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

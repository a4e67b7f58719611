// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/berth-project/berth/pkg/client"
)

// TestEndsSaid: what waits for room of a reservation that ends does not go on.
func TestEndsSaid(t *testing.T) {
	for want, v := range map[string]client.Reservation{
		"reservation r ends; 2 that were booted into it go on": {Name: "r", Taken: 2, Started: 2},
		"reservation r ends; 1 that were booted into it go on, 2 that wait for its room end with it": {
			Name: "r", Taken: 3, Started: 1,
		},
	} {
		if got := endsSaid(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

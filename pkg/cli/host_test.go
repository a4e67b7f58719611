// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// A host says how it weighs, and host show tells.
func TestHostShowsItsWeigher(t *testing.T) {
	for _, w := range []compute.Weigher{compute.Spread, compute.Pack} {
		v := rest.FromBeacon(&compute.Beacon{Host: "h1", Weigher: w}, 0)
		if d := hostDetails(client.Host(v)); !slices.Contains(d, detail{"Weigher", w.String()}) {
			t.Errorf("of a host with %s it shows %v", w, d)
		}
	}
}

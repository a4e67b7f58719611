// SPDX-License-Identifier: Apache-2.0

package flavors

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

func TestMetrics(t *testing.T) {
	reg, log := prometheus.NewRegistry(), &topic{}
	n := log.node()
	n.opts.Metrics = NewMetrics(reg)
	is := func(want float64, change, result string) {
		t.Helper()
		telemetrytest.Is(t, reg, want, "berth_catalog_changes_total", "change", change, "result", result)
	}
	ch, err := n.AddCapability(t.Context(), gpu("a100"), How{})
	must(t, ch, err)
	ch, err = n.AddFlavor(t.Context(), small(), How{DryRun: true})
	must(t, ch, err)
	is(0, "flavor-add", "ok")
	_, err = n.AddFlavor(t.Context(), compute.Flavor{Name: "none"}, How{})
	kind(t, err, compute.KindInvalid)
	log.fail = errors.New("gone")
	_, err = n.AddFlavor(t.Context(), small(), How{})
	kind(t, err, compute.KindTimeout)
	is(1, "capability-add", "ok")
	is(1, "flavor-add", "refused")
	is(1, "flavor-add", "failed")
}

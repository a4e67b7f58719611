// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// Retention removes words of a host's stream before its agent has read them: one of them may have said that the host is
// dead, so what the host claims from then on is claimed behind all of them.
func TestClaimsBehindWhatWasMissed(t *testing.T) {
	t.Parallel()
	host := smallHost(1)
	r := newRig(t, kafkatest.Embedded(t), host).up()
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	r.await(r.boot(c, 1, compute.Boot{Flavor: "m1.small"}), compute.StateActive) // now its journal has a position
	r.stop(string(host.ID))
	answered(r, func() (client.HostAsked, error) { return c.Disable(t.Context(), host.ID, "new disks") })
	answered(r, func() (client.HostAsked, error) { return c.Enable(t.Context(), host.ID, "") })
	begin, err := kafkatest.RemoveRecords(t.Context(), r.kafka.Brokers, r.cell("test").Topics().Host(host.ID))
	r.must(err)
	r.startAgents(host)
	second := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
	r.await(second, compute.StateActive)
	if got := r.seen.get(second[0]).Fence; begin == 0 || got != compute.FenceEpoch(begin) {
		t.Errorf("claimed under fence %d, and the stream begins at %d", got, begin)
	}
}

// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestSpread: members go to the value with fewest, a boot that is repeated under its key is the same, and one that a skew
// holds runs once a member of another value does.
func TestSpread(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...).up()
		c := r.as("p")
		r.offer(c, []compute.Capability{{Axis: "zone", Values: []compute.CapabilityValue{{Value: "a"}, {Value: "b"}}}},
			[]compute.Flavor{small("m1.small", "zone")})
		r.group(c, compute.Group{Name: "web", Policy: compute.SpreadOnly, Spread: "zone", Skew: 1})
		member := compute.Boot{Flavor: "m1.small", Rules: compute.InGroup("web")}
		ids := r.boot(c, 6, member)
		r.await(ids, compute.StateActive)
		r.haveValues(c, rest.GroupValue{Value: "a", Members: 3, Placed: 3}, rest.GroupValue{Value: "b", Members: 3, Placed: 3})

		keyed, err := c.BootUnder(t.Context(), "seven", member)
		r.must(err)
		r.await([]compute.InstanceID{keyed.ID}, compute.StateActive)
		again, err := c.BootUnder(t.Context(), "seven", member)
		if err != nil || again.ID != keyed.ID || again.With["zone"] == "" {
			t.Errorf("repeated it is %s with %v: %v", again.ID, again.With, err)
		}
		full := again.With["zone"]
		if _, err := c.BootUnder(t.Context(), "seven", member.Having("zone", full)); compute.KindOf(err) != compute.KindConflict {
			t.Errorf("with the value that was chosen it is another request: %v", err)
		}
		held := r.boot(c, 1, member.Having("zone", full)) // 4 and 3 are there: it would be the fifth
		other := r.boot(c, 1, member)
		r.await(other, compute.StateActive)
		r.await(held, compute.StateActive)
		if i, err := c.Instance(t.Context(), other[0]); err != nil || i.With["zone"] == full {
			t.Errorf("%s has fewest, and the next got %v: %v", full, i.With, err)
		}
	})
}

func (r *rig) haveValues(c *client.Client, want ...rest.GroupValue) {
	r.t.Helper()
	r.poll(fmt.Sprintf("the group has %+v", want), func() bool { // the node may have read less than the test
		g, err := c.Group(r.t.Context(), "web")
		r.must(err)
		return slices.Equal(g.Values, want)
	})
}

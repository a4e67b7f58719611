// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// What became of an instance, and who asked for it, is told by a node that was not there.
func TestStoryHasWhoAsked(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHost(1))
		r.startQueues()
		r.startConductor("conductor")
		r.startAgents(r.hosts...)
		first, _ := r.firstToken(r.cell("first"), "root")
		c := r.with(r.auditedAPI("api-a"), first, "p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		other := r.with(r.auditedAPI("api-b"), first, "p")
		r.poll("it tells all", func() bool {
			story, err := other.Story(t.Context(), ids[0])
			r.must(err)
			if story.Asked != "complete" {
				t.Fatalf("%+v", story)
			}
			return told(story) == "accepted, boot by token:root, admitted, granted, active, delete-instance by token:root, deleted" ||
				told(story) == "boot by token:root, accepted, admitted, granted, active, delete-instance by token:root, deleted"
		})
	})
}

// told are the steps of a story.
func told(s client.Story) string {
	var steps []string
	for _, i := range s.Items {
		if i.Who != "" {
			i.What += " by " + i.Who
		}
		steps = append(steps, i.What)
	}
	return strings.Join(steps, ", ")
}

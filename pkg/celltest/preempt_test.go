// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/queues/save"
)

// A host is full of preemptible machines, and one of normal priority comes: one of them goes, with notice, and no other. Once
// there is room the one that went runs again, as its next attempt. Both stories tell it.
func TestOneMakesRoom(t *testing.T) {
	t.Parallel()
	b := kafkatest.Embedded(t)
	r := newRig(t, b, smallHosts(1)...)
	rules := save.DefaultRules()
	rules.After = time.Second
	r.savings = &rules
	r.up()
	c := r.as("p")
	quarter := small("m1.small")
	quarter.Resources[compute.VCPU] = 4
	r.offer(c, nil, []compute.Flavor{quarter})
	boot := compute.Boot{Flavor: "m1.small"}
	boot.Preempt(compute.Preemptible{Then: compute.ThenRequeue, Grace: 5 * time.Second})
	running := r.boot(c, 4, boot)
	r.await(running, compute.StateActive)
	normal := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
	r.await(normal, compute.StateActive)

	_, err := c.Instances(t.Context(), client.Filter{}) // so that the node has read what there is
	r.must(err)
	var gone []client.Instance
	for _, id := range running {
		i, err := c.Instance(t.Context(), id)
		r.must(err)
		if i.State != "active" || i.Attempt > 1 {
			gone = append(gone, i)
		}
	}
	if len(gone) != 1 || gone[0].Attempt != 2 || gone[0].Reason == nil || gone[0].Reason.Code != compute.Preempted ||
		gone[0].Notice == nil || gone[0].Notice.Queue != "m1.small" || gone[0].Notice.Over.IsZero() || len(gone[0].Failures) > 0 {
		t.Fatalf("%d went: %+v", len(gone), gone)
	}
	i, err := c.Instance(t.Context(), normal[0])
	if err != nil || i.MadeRoom != 1 {
		t.Errorf("%d went for it by its own word, %v", i.MadeRoom, err)
	}
	told := r.story(c, gone[0].ID)
	if !strings.Contains(told, "noticed") || !strings.Contains(told, "preempted") {
		t.Errorf("the story of what went is %s", told)
	}
	if told := r.story(c, normal[0]); !strings.Contains(told, "taken away for it: 1") {
		t.Errorf("the story of what came is %s", told)
	}
	r.delete(c, normal)
	r.await([]compute.InstanceID{gone[0].ID}, compute.StateActive)
}

// story is the steps of an instance's life, with what is said of them.
func (r *rig) story(c *client.Client, id compute.InstanceID) string {
	r.t.Helper()
	s, err := c.Story(r.t.Context(), id)
	r.must(err)
	var out []string
	for _, step := range s.Items {
		out = append(out, step.What+" "+step.Message)
	}
	return strings.Join(out, "; ")
}

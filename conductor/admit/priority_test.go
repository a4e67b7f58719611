// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A boot with a class goes to the tier of its queue, listed or not, with the needs of that queue as it is listed; to
// none where its queue takes no requests, or where a queue of the catalog has the tier's name.
func TestResolveTiers(t *testing.T) {
	b := compute.Boot{Flavor: "m1.small", Rules: compute.RulesOf("", compute.Set{}, compute.PriorityHigh)}
	const tier compute.QueueName = "m1.small.priority-high"
	v := catalog()
	base := v.Queues["m1.small"]
	base.Resources = compute.Resources{compute.VCPU: 7} // the flavor was replaced, and its queue not yet
	v.Queues["m1.small"] = base
	resolve := func(what string, want compute.ReasonCode, detail string) compute.Queue {
		t.Helper()
		q, reason := v.Resolve(b)
		switch {
		case reason == nil && want != "" ||
			reason != nil && (reason.Code != want || !strings.Contains(reason.Detail, detail)):
			t.Errorf("%s: %v", what, reason)
		case reason == nil && (q.Name != tier || q.Priority != compute.PriorityHigh || q.Resources[compute.VCPU] != 7):
			t.Errorf("%s: %+v", what, q)
		}
		return q
	}
	if q := resolve("not listed", "", ""); q.TopicID != "" {
		t.Errorf("%+v", q)
	}
	listed := base.Tier(compute.PriorityHigh)
	listed.TopicID = "t9"
	v.Queues[tier] = listed
	if q := resolve("listed", "", ""); q.TopicID != "t9" {
		t.Errorf("%+v", q)
	}
	listed.State = compute.QueueClosed
	v.Queues[tier] = listed
	resolve("closed", compute.QueueClosedReason, string(tier))
	v.Queues[tier] = compute.Queue{Name: tier, Flavor: compute.FlavorName(tier)}
	resolve("another flavor's", compute.QueueClosedReason, "flavor "+string(tier))
	v.Queues[tier] = compute.Queue{Name: tier, Flavor: "m1.small", Choices: compute.Choices{"priority": "high"}}
	resolve("a choice of the catalog of before", compute.QueueClosedReason, "")
	delete(v.Queues, tier)
	base.State = compute.QueueClosed
	v.Queues["m1.small"] = base
	resolve("its queue is closed", compute.QueueClosedReason, "m1.small")
}

// TestATierThatIsNotMade: its flavor was removed in the moment in which its first boot was admitted, so the queue
// manager makes none. While the flavor is there its instance waits; a queue manager may be slow.
func TestATierThatIsNotMade(t *testing.T) {
	c := newCrowd(t)
	boot := func(id string) {
		b := compute.Boot{Flavor: "m1.small", Rules: compute.RulesOf("", compute.Set{}, compute.PriorityHigh)}
		c.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: long(id), Boot: &b}})
	}
	boot("1")
	c.pass(10 * time.Minute)
	if inst := c.state.Instance(long("1")); inst.State != compute.StateQueued || len(c.queue) != 0 {
		t.Fatalf("it is %s, %s", inst.State, inst.Reason)
	}
	delete(c.view.Flavors, "m1.small")
	c.pass(time.Minute)
	inst := c.state.Instance(long("1"))
	if inst.State != compute.StateError || inst.Reason.Code != compute.QueueClosedReason {
		t.Errorf("it is %s, %s", inst.State, inst.Reason)
	}
}

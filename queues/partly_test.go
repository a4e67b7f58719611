// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A partition of instances that cannot be read holds up what is in it alone: queues are made for all other projects,
// and streams for hosts, by a manager that is elected meanwhile, too. What would end is left until all is read.
func TestAPartitionThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		first := f.join(t, "first")
		first.elected <- true
		f.publish(names.Catalog(), flavor("old"))
		settle(20 * time.Second)
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "sync" {
				return fault{mode: before}
			}
			return fault{}
		}
		f.mu.Unlock()
		for _, name := range []compute.QueueName{"during", "after"} {
			f.publish(names.Catalog(), flavor(string(name)), noFlavor("old"))
			f.publish(names.Hosts(), beacon("h-"+string(name), 4))
			settle(2 * time.Minute)
			if q, listed := f.listed()[name]; !listed || q.State != compute.QueueOpen || f.topic(name) == nil {
				t.Errorf("the queue of %s, whose projects can be read, is %+v", name, q)
			}
			if f.streams()[compute.HostID("h-"+name)] == 0 {
				t.Errorf("the host of %s has no stream", name)
			}
			if q, listed := f.listed()["old"]; !listed || q.State != compute.QueueOpen || f.topic("old") == nil {
				t.Errorf("a queue in which somebody may wait is %+v", q)
			}
			if name == "during" { // and the next one begins in the middle of it
				first.elected <- false
				f.join(t, "second").elected <- true
			}
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		settle(5 * time.Minute)
		if f.topic("old") != nil {
			t.Error("all can be read, and a queue that nobody wants is there")
		}
	})
}

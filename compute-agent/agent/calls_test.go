// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"

	"github.com/berth-project/berth/compute-agent/task"
)

// No more calls are made at once than there are workers; preparations and launches need none.
func TestCallsWaitForAWorker(t *testing.T) {
	c := newCalls(1, nil)
	for i := range workersPerSlot + 2 {
		x := &call{id: id(i), stage: task.Ending}
		if c.pool(x) != &c.workers || c.pool(&call{stage: task.Launching}) != nil {
			t.Fatal("it is not destroys that need a worker, and launches that do not")
		}
		if c.pool(&call{stage: task.Running}) != &c.workers || c.pool(&call{stage: task.Running, asks: true}) != &c.guests {
			t.Fatal("it is not starts and hard stops that need a worker, and guests that are asked that do not")
		}
		c.waiting = append(c.waiting, x)
	}
	var made []*call
	for x := c.next(); x != nil; x = c.next() {
		made, c.running[x.id] = append(made, x), x
	}
	if len(made) != workersPerSlot || len(c.waiting) != 2 {
		t.Fatalf("%d are made at once, and %d wait", len(made), len(c.waiting))
	}
	if made[0].id != id(0) || c.none() {
		t.Errorf("the first one is %s", made[0].id)
	}
	c.ended(made[0])
	if x := c.next(); x == nil || x.id != id(workersPerSlot) || c.next() != nil {
		t.Errorf("a worker that is free again has %+v", x)
	}
}

// What ends a call that has overtaken another of the same instance leaves the other alone.
func TestCallThatEndsLate(t *testing.T) {
	c := newCalls(1, nil)
	ctx, cancel := context.WithCancel(context.Background())
	first, second := &call{id: id(1)}, &call{id: id(1), cancel: cancel}
	c.running[id(1)] = second
	c.ended(first)
	c.interrupt(id(2)) // nothing is done for it
	if c.none() || ctx.Err() != nil {
		t.Fatal("the second call is forgotten, or was interrupted")
	}
	c.interrupt(id(1))
	if ctx.Err() == nil {
		t.Error("it was not interrupted")
	}
}

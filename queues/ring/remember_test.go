// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"testing"
	"time"
)

// A queue into which nothing came for long is remembered while anything waits in it, or
// is to be published: also where it is as many of either.
func TestAQueueWithWorkIsNotForgotten(t *testing.T) {
	w := newWorld(t, 10)
	w.came()
	w.came(func(x *Work) { x.Due = zero.Add(2 * time.Hour) })
	w.looks()
	w.now = zero.Add(time.Hour)
	w.looks()
	if q := w.queues["q"]; q == nil || len(q.works) != 1 || len(q.later) != 1 {
		t.Errorf("it is %+v", q)
	}
}

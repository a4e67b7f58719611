// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// TestInstancesOfALaterVersion: what only a later Berth can read may need any queue, so none counts as
// empty while there is such an instance.
func TestInstancesOfALaterVersion(t *testing.T) {
	v := newView(Options{Logger: zap.NewNop()})
	v.unreadable = func(wire.Record, error) { t.Error("it is taken for poison") }
	v.listed["q"], v.listed["r"] = compute.Queue{Name: "q"}, compute.Queue{Name: "r"}
	now := wire.EncodeInstance(compute.Instance{
		ID: "00000000-0000-4000-8000-000000000001", Project: "p", Version: 1, State: compute.StateQueued, Queue: "q",
		Resources: compute.Resources{compute.VCPU: 1}, Boot: compute.Boot{Host: "h1"},
	})
	later := now
	later.Headers = []wire.Header{{Key: wire.HeaderSchema, Value: fmt.Append(nil, wire.Schema+1)}}
	want := func(what string, q, r int) {
		t.Helper()
		if work := v.work(); work["q"] != q || work["r"] != r {
			t.Errorf("%s: %v", what, work)
		}
	}
	v.instance(later, time.Now())
	want("of a later version", 1, 1)
	v.instance(now, time.Now())
	want("of this one", 1, 0)
	v.instance(later, time.Now())
	want("of this one, then of a later", 2, 1)
	v.instance(wire.Tombstone(now.Key), time.Now())
	want("gone", 0, 0)
}

// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"runtime"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/wiretest"
)

// TestMillion reads many instances that all wait and says what each takes, and
// how long a tick takes. With BERTH_MILLION=1000000 it is docs/PERFORMANCE.md's table;
// without, few enough to be run every time.
func TestMillion(t *testing.T) {
	many := wiretest.Many(t)
	crowd := wiretest.Mixed(many, 1000, time.Now())
	crowd.State = compute.StateQueued
	before := wiretest.Heap()
	m := New(Options{})
	for q := range crowd.Queues {
		m.Queues([]wire.Record{wire.EncodeQueue(crowd.Queue(q))}, false)
	}
	var took wiretest.Watch
	for i := 0; i < many; i += 1000 {
		recs := crowd.Chunk(i, many)
		took.Run(func() { m.Instances(recs, false) })
	}
	each := float64(wiretest.Heap()-before) / float64(many)
	term := newTerm(m)
	tick := wiretest.Took(5, func() {
		m.view.advisor = newView(m.opts).advisor // nothing was told yet
		m.view.relisted = true
		if advice, ok := term.advise(); !ok || len(advice.About) != crowd.Queues {
			t.Errorf("advice about %d queues", len(advice.About))
		}
	})
	t.Logf("%d that wait: taken in %s, %.0f bytes of heap each, a tick takes %.2f ms",
		many, took.String(), each, float64(tick.Microseconds())/1000)
	runtime.KeepAlive(m)
}

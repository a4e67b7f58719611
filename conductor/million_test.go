// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"runtime"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/wiretest"
)

// TestMillion restores many instances and says what each takes. With BERTH_MILLION=1000000
// it is docs/PERFORMANCE.md's table; without, few enough to be run every time.
func TestMillion(t *testing.T) {
	many := wiretest.Many(t)
	crowd := wiretest.Mixed(many, max(many/1000, 1), epoch)
	warm := New(Config{Partitions: 1}, Dependencies{Wake: func() {}, HostsHeard: time.Now, CatalogHeard: time.Now})
	warm.Gain(0)
	for _, rec := range crowd.Chunk(0, many) { // what is made once in a process is no instance's
		warm.Restore(0, rec)
	}
	warm.Restored(0, int64(many), epoch)
	before := wiretest.Heap()
	c := New(Config{Partitions: 1}, Dependencies{Wake: func() {}, HostsHeard: time.Now, CatalogHeard: time.Now})
	c.Gain(0)
	var took, restored wiretest.Watch
	bytes := 0
	for i := 0; i < many; i += 1000 {
		recs := crowd.Chunk(i, many)
		took.Run(func() {
			for j, rec := range recs {
				bytes += len(rec.Value)
				rec.Offset = int64(i + j)
				c.Restore(0, rec)
			}
		})
	}
	loading := wiretest.Heap()
	restored.Run(func() { c.Restored(0, int64(many), epoch) })
	each := float64(wiretest.Heap()-before) / float64(many)
	t.Logf("%d instances of %d bytes: restore %s, restored %s, %.0f bytes of heap each while loading, %.0f restored",
		many, bytes/many, took.String(), restored.String(), float64(loading-before)/float64(many), each)
	if n := c.states[0].Len(); n != many {
		t.Errorf("%d were restored", n)
	}
	if each > 1024 {
		t.Errorf("an instance takes %.0f bytes of heap, more than 1,024", each)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(warm)
}

func BenchmarkRestore(b *testing.B) {
	recs := wiretest.Mixed(1_000_000, 1000, epoch).Chunk(0, 1000)
	b.ReportAllocs()
	for i := range b.N {
		if _, err := wire.DecodeInstance(recs[i%1000]); err != nil {
			b.Fatal(err)
		}
	}
}

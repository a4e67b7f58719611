// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// Partitions that are taken over together are read together, but one that cannot be read keeps no other waiting.
func TestPartitionsAreRestoredEachInItsTime(t *testing.T) {
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		h := newParking(t, c, 1)
		h.loop.effects = effectsOf(c.Cfg)
		unread := h.loop.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Fetch}, Topic: h.loop.Cfg.Topics.Instances(), Partitions: []int32{1},
			Err: kerr.NotLeaderForPartition, Count: -1,
		})
		began := time.Now()
		h.loop.start(t)
		defer h.loop.end(t)
		h.send(t, 0)
		h.done(t, 0)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the other partition took %v", took)
		}
		if h.loop.has()[0] != 0 || len(h.loop.has()) != 1 {
			t.Errorf("ready are %v", h.loop.has())
		}
		unread.Remove()
		h.both(t)
		for p := range int32(2) {
			if h.loop.gains[p] != 1 {
				t.Errorf("partition %d was gained %d times", p, h.loop.gains[p])
			}
		}
	})
}

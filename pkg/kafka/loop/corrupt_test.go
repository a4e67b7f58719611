// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// An input in a batch with a wrong checksum may have been good: nobody passes it. Its partition is set aside and no
// other is, and it goes on once the batch can be read, from another replica perhaps.
func TestCorruptInputSetsItsPartitionAside(t *testing.T) {
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		h := newParking(t, c, 1)
		lone, topic := c.LeaderFor(h.loop.Cfg.Topics.Instances(), 1), h.loop.Cfg.Topics.Requests()
		if err := c.MoveTopicPartition(topic, 1, lone); err != nil {
			t.Fatal(err)
		}
		h.loop.effects = effectsOf(c.Cfg)
		var corrupt atomic.Bool
		c.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if req := k.(*kmsg.FetchRequest); corrupt.Load() && c.CurrentNode() == lone {
				return brokertest.SpoiltAnswer(req), nil, true
			}
			return nil, nil, false
		})
		asides := newAsides()
		h.loop.startWith(t, Options{Group: "g", SetAside: asides.set})
		defer h.loop.end(t)
		h.both(t)
		corrupt.Store(true)
		h.send(t, 1) // ends the fetch that is open
		asides.await(t, 1)
		asides.mu.Lock()
		if why := asides.now[0]; !strings.Contains(why.Why, "cannot be read") || why.Remedy == "" {
			t.Errorf("set aside: %+v", why)
		}
		asides.mu.Unlock()
		h.send(t, 1)
		h.send(t, 0)
		h.done(t, 0)
		corrupt.Store(false)
		brokertest.Passes(corruptRetry + time.Second)
		asides.await(t)
		h.done(t, 1)
		if n := h.loop.gains[0]; n != 1 {
			t.Errorf("the other partition was gained %d times", n)
		}
	})
}

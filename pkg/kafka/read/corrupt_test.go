// SPDX-License-Identifier: Apache-2.0

package read

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// TestCorruptBatchHoldsUpItsPartitionAlone: a batch with a wrong checksum ends no reader, at its start or later. Its
// partition waits until the batch can be read, from another replica perhaps, and no other waits for it.
func TestCorruptBatchHoldsUpItsPartitionAlone(t *testing.T) {
	for name, opts := range map[string]Options{"all": {Topic: "r.x"}, "committed": {Topic: "r.x", Committed: true}} {
		for _, first := range []bool{true, false} {
			brokertest.WithRefusing(t, 2, func(t *testing.T, c brokertest.Refusing) {
				brokertest.MakeTopic(t, c.Cfg, "r.x", 2, nil)
				lone := c.LeaderFor("r.x", 1)
				if err := c.MoveTopicPartition("r.x", 0, 1-lone); err != nil {
					t.Fatal(err)
				}
				var corrupt atomic.Bool
				corrupt.Store(first)
				spoilt := make(chan struct{}, 1)
				c.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					if req := k.(*kmsg.FetchRequest); corrupt.Load() && c.CurrentNode() == lone {
						select {
						case spoilt <- struct{}{}:
						default:
						}
						return brokertest.SpoiltAnswer(req), nil, true
					}
					return nil, nil, false
				})
				r := read(t, c.Cfg, opts)
				if !first {
					brokertest.Await(t, r.Ready(), "the reader is ready")
					corrupt.Store(true)
					// The fetch that was open by then would be answered with what is published next.
					brokertest.Await(t, spoilt, "a fetch is answered with a corrupt batch")
				}
				brokertest.Put(t, c.Cfg, "r.x", 1, "held up")
				for _, value := range []string{"one", "two", "three"} {
					brokertest.Put(t, c.Cfg, "r.x", 0, value)
					if values, _ := r.upTo(t, value); len(values) != 1 {
						t.Errorf("%s, first: %t: read %q", name, first, values)
					}
				}
				corrupt.Store(false)
				if values, _ := r.upTo(t, "held up"); len(values) != 1 {
					t.Errorf("%s, first: %t: read %q", name, first, values)
				}
			})
		}
	}
}

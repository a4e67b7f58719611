// SPDX-License-Identifier: Apache-2.0

package follow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/followtest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A follower stops while the broker holds its question, and leaves nothing behind. In virtual time no time passes but
// what something waits for.
func TestStopsAtOnce(t *testing.T) {
	// sarama counts with go-metrics, whose one goroutine begins with the first client and never ends: it must not begin
	// in a bubble.
	followtest.Named(t, "sarama").New(t, kafkatest.Embedded(t).Addrs, follow.Options{Handle: func(follow.Batch) {}})
	for _, w := range followtest.All() {
		t.Run(w.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topics := wire.Topics{Prefix: "s."}
				brokers, dial := followtest.Virtual(t, topics.Instances(), partitions)
				f := w.Through(t, dial, brokers, follow.Options{
					Topics: topics, Handle: func(follow.Batch) {}, Wait: follow.MaxWait,
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- f.Run(ctx) }()
				<-f.Ready()
				synctest.Wait()
				stopped := time.Now()
				stop()
				must(t, <-ended)
				if took := time.Since(stopped); took > 0 {
					t.Errorf("it waits for the broker, %v", took)
				}
			})
		})
	}
}

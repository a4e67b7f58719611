// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// Where the end of one partition's inputs cannot be asked for, the timers of that partition wait, and of no other.
func TestTimersOfOnePartitionHoldUpNoOther(t *testing.T) {
	const alone = 1
	for _, how := range []string{"refusing", "refusing beside others", "mute"} {
		t.Run(how, func(t *testing.T) {
			brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				lone := (c.CoordinatorFor("g") + 1) % 3
				topics := l.Cfg.Topics
				for _, topic := range []string{topics.Requests(), topics.Reports(), topics.Instances()} {
					for p := range int32(2) {
						to := (lone + 1) % 3
						if topic == topics.Requests() && p == alone && how != "refusing beside others" {
							to = lone
						}
						if err := c.MoveTopicPartition(topic, p, to); err != nil {
							t.Fatal(err)
						}
					}
				}
				cut := newDeaf(l.Cfg.Dial, c.ListenAddrs()[lone])
				l.Cfg.Dial = cut.dial
				var due atomic.Bool
				l.onTurn = func(in wire.Turn, res *wire.Result) {
					if due.Load() {
						res.Wake = in.Now
					}
				}
				l.start(t)
				defer l.end(t)
				l.decided(t)
				if how == "mute" {
					cut.deaf(true)
					defer cut.deaf(false)
				} else {
					c.Fault(kfake.Fault{
						Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topics.Requests(), Partitions: []int32{alone},
						Err: kerr.NotLeaderForPartition, Count: -1,
					})
				}
				due.Store(true)
				l.loop.Wake()
				for range 3 {
					began := time.Now()
					l.await(t, "timers 0")
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("the other partition's timers waited for %v", took)
					}
				}
			})
		})
	}
}

// A position behind the end of a topic is behind no inputs: until it is known to lie in the log no timer fires by it.
// What was written since would be heard after a timer that it should beat.
func TestNoTimersBehindAWrongPosition(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		l := newLooping(t, c)
		cl := brokertest.AnyClient(t, l.Cfg)
		var offsets kadm.Offsets
		offsets.AddOffset(l.Cfg.Topics.Requests(), 1, 0, -1)
		offsets.AddOffset(l.Cfg.Topics.Reports(), 1, 5, -1)
		if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
			t.Fatal(err)
		}
		cl.Close()
		l.onReady = func(_ int32, now time.Time) *time.Time { return &now }
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if _, fires := in.TimersUntil[1]; fires {
				t.Error("a timer fired behind a position that is not in the log")
			}
			res.Wake = in.Now
		}
		asides := newAsides()
		l.startWith(t, Options{Group: "g", SetAside: asides.set})
		defer l.end(t)
		asides.await(t, 1)
		l.await(t, "timers 0")
	})
}

package kafka

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/wire"
)

// Where the end of one partition's inputs cannot be asked for, the timers of that partition wait, and of no other.
func TestTimersOfOnePartitionHoldUpNoOther(t *testing.T) {
	const alone = 1
	for _, how := range []string{"refusing", "mute"} {
		t.Run(how, func(t *testing.T) {
			withRefusing(t, 3, func(t *testing.T, c refusing) {
				l := newLooping(t, c)
				lone := (c.CoordinatorFor("g") + 1) % 3
				topics := l.cfg.Topics
				for _, topic := range []string{topics.Requests(), topics.Reports(), topics.Instances()} {
					for p := range int32(2) {
						to := (lone + 1) % 3
						if topic == topics.Requests() && p == alone {
							to = lone
						}
						if err := c.MoveTopicPartition(topic, p, to); err != nil {
							t.Fatal(err)
						}
					}
				}
				cut := newDeaf(l.cfg.Dial, c.ListenAddrs()[lone])
				l.cfg.Dial = cut.dial
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

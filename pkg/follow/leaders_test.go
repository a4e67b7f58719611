// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// ledBy is which broker leads partition 0, in which epoch.
func ledBy(broker, epoch int32) Leaders {
	return Leaders{ID: [16]byte{1}, Of: map[int32]int32{0: broker}, Epoch: map[int32]int32{0: epoch}}
}

// A leader that is cut off from the other brokers answers as before, and does not know that another leads. That is
// asked of others, now and then; and whatever the one that is cut off says of itself, the newer leader stays.
func TestALeaderThatIsCutOff(t *testing.T) {
	var late atomic.Int32 // questions to broker 1 after it was left
	var left atomic.Bool
	views := 0
	c := &cluster{view: func(now time.Duration) Leaders {
		if views++; now < time.Minute || left.Load() && views%2 == 0 {
			return ledBy(1, 5)
		}
		return ledBy(2, 6)
	}}
	c.fetch = func(ctx context.Context, broker int32, from map[int32]int64, wait time.Duration) ([]Part, error) {
		part := of(0, from[0], max(from[0], 3))
		if broker == 2 {
			left.Store(true)
			part = of(0, from[0], max(from[0], 5))
		} else if left.Load() && ctx.Err() == nil { // else it was asked before, and has just been cancelled
			late.Add(1)
		}
		if len(part.Spans) == 0 {
			await(ctx, wait)
		}
		return []Part{part}, ctx.Err()
	}
	seen, said := c.follow(t, 10*time.Minute)
	if seen[0] != 5 || late.Load() > 0 || len(said) > 0 {
		t.Errorf("%v was read, %d questions went to the old leader again, said: %v", seen, late.Load(), said)
	}
}

// A leader that does not answer any more is left for the one that is named, though its epoch is lower: kafka-go tells
// no ids of topics, and in one that was made again epochs begin anew.
func TestALowerEpochIsBelievedInNeed(t *testing.T) {
	c := &cluster{view: func(now time.Duration) Leaders {
		if now < time.Minute {
			return ledBy(2, 6)
		}
		return ledBy(1, 0)
	}}
	c.fetch = func(ctx context.Context, broker int32, from map[int32]int64, wait time.Duration) ([]Part, error) {
		if broker == 2 && time.Since(c.began) >= time.Minute {
			return []Part{{Code: 6}}, nil
		}
		part := of(0, from[0], max(from[0], int64(broker)))
		if broker == 1 {
			part = of(0, from[0], max(from[0], 9))
		}
		if len(part.Spans) == 0 {
			await(ctx, wait)
		}
		return []Part{part}, ctx.Err()
	}
	if seen, _ := c.follow(t, 2*time.Minute); seen[0] != 9 {
		t.Errorf("%v was read", seen)
	}
}

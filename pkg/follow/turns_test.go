// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Partitions of which no answer comes in time are asked for alone, and leave every other question to the others.
func TestSlowPartitionsLeaveTurns(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: 1, 2: 1}}
	var alone []int32 // of the slow ones, as they were asked for
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, wait time.Duration) (parts []Part, _ error) {
		for p, at := range from {
			if p < 2 {
				if len(from) == 1 {
					alone = append(alone, p)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			parts = append(parts, of(p, at, at+1))
		}
		await(ctx, max(wait, time.Second))
		return parts, ctx.Err()
	}
	if seen, _ := c.follow(t, 10*time.Minute); seen[2] < 20 || seen[0]+seen[1] > 0 {
		t.Errorf("%v was read", seen)
	}
	for i := range alone[1:] {
		if alone[i] == alone[i+1] {
			t.Fatalf("they were asked for in this order: %v", alone)
		}
	}
}

// A broker that does not answer where its partitions begin holds up those of others for seconds.
func TestABrokerThatDoesNotSayWhereItsPartitionsBegin(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: 2}}
	c.begin = func(ctx context.Context, broker int32) error {
		if broker == 2 {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, wait time.Duration) ([]Part, error) {
		await(ctx, max(wait, time.Second))
		return []Part{of(0, from[0], from[0]+1)}, ctx.Err()
	}
	if seen, _ := c.follow(t, answerWithin); seen[0] == 0 {
		t.Error("nothing was read")
	}
}

// While records come, what one broker says of another topic of this name, or that nobody may read it, ends nothing: it
// may be cut off from the others, and know neither.
func TestABrokerThatKnowsAnotherTopic(t *testing.T) {
	c := &cluster{view: func(now time.Duration) Leaders {
		if now > time.Minute && now < 5*time.Minute {
			return Leaders{ID: [16]byte{9}, Of: map[int32]int32{0: 1}}
		}
		return Leaders{ID: [16]byte{1}, Of: map[int32]int32{0: 1}}
	}}
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, wait time.Duration) ([]Part, error) {
		await(ctx, max(wait, time.Second))
		return []Part{of(0, from[0], from[0]+1)}, ctx.Err()
	}
	if seen, said := c.follow(t, 10*time.Minute); seen[0] < 10 || len(said) > 0 {
		t.Errorf("%v was read, said: %v", seen, said)
	}
}

// bare is a loop that follows partition 0 up to offset 3, of broker 1 in epoch 5.
func bare(t *testing.T) (*loop, *cursor) {
	t.Helper()
	f, err := New(&cluster{}, Options{Handle: func(Batch) {}})
	if err != nil {
		t.Fatal(err)
	}
	l, c := newLoop(f), newCursor(0)
	l.timer = time.NewTimer(time.Hour)
	c.advance(holds(0, 1, 2, 3), false)
	l.topic, l.at[0] = ledBy(1, 5), c
	return l, c
}

// After a change of leaders what was read last is compared, of partitions too that nothing is asked about just then.
func TestAChangeOfLeadersIsDoubted(t *testing.T) {
	for name, c := range map[string]struct {
		now     Leaders
		doubted bool
	}{
		"the same": {ledBy(1, 5), false}, "another": {ledBy(2, 6), true}, "it led again": {ledBy(1, 7), true},
	} {
		l, cur := bare(t)
		if err := l.applyView(view{topic: c.now}); err != nil || cur.verify != c.doubted {
			t.Errorf("%s: %v, doubted: %v", name, err, cur.verify)
		}
	}
}

// A refused connection says nothing of how much comes in time.
func TestRoomIsForSlowAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		halved int
	}{"refused": {0, 0}, "too slow": {answerWithin, 2}} {
		l, cur := bare(t)
		a := &request{
			broker: 1, from: map[int32]int64{0: 3}, since: time.Now().Add(-c.after), cancel: func() {},
			err: compute.Unavailable("fetch", errors.New("refused")),
		}
		cur.by = a
		if l.release(a); cur.halved != c.halved || !cur.lost {
			t.Errorf("%s: halved %d times, lost: %v", name, cur.halved, cur.lost)
		}
	}
}

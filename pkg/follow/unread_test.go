// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// cluster answers questions about several partitions.
type cluster struct {
	leads map[int32]int32
	view  func(now time.Duration) Leaders // if not nil, in its place: after so long
	fetch func(ctx context.Context, broker int32, from map[int32]int64, wait time.Duration) ([]Part, error)
	views int // how often it was asked for the leaders
	began time.Time
	slow  func(bytes int32) bool                        // if not nil: whether that much does not come in time
	begin func(ctx context.Context, broker int32) error // if not nil: why a broker does not say where partitions begin
}

func (c *cluster) Leaders(context.Context, string) (Leaders, error) {
	c.views++
	if c.view != nil {
		return c.view(time.Since(c.began)), nil
	}
	return Leaders{ID: [16]byte{1}, Of: maps.Clone(c.leads)}, nil
}

func (c *cluster) Oldest(
	ctx context.Context, broker int32, _ string, partitions []int32,
) (map[int32]int64, error) {
	if c.begin != nil {
		if err := c.begin(ctx, broker); err != nil {
			return nil, err
		}
	}
	oldest := map[int32]int64{}
	for _, p := range partitions {
		oldest[p] = 0
	}
	return oldest, nil
}

func (c *cluster) Fetch(
	ctx context.Context, broker int32, _ string, from map[int32]int64, room Room,
) ([]Part, error) {
	if c.slow != nil && c.slow(room.Bytes*int32(len(from))) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.fetch(ctx, broker, from, room.Wait)
}

func (c *cluster) Close() error { return nil }

// follow follows the cluster for so long, in a bubble: what was handed over of each partition, and what was said.
func (c *cluster) follow(t *testing.T, so time.Duration) (seen map[int32]int, said []observer.LoggedEntry) {
	t.Helper()
	seen = map[int32]int{}
	core, logs := observer.New(zapcore.WarnLevel)
	synctest.Test(t, func(t *testing.T) {
		c.began = time.Now()
		ctx, stop := context.WithTimeout(t.Context(), so)
		defer stop()
		f, err := New(c, Options{Log: zap.New(core), Handle: func(b Batch) {
			for _, ch := range b.Changes {
				seen[ch.Partition]++
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return seen, logs.All()
}

// of is the record at each offset of a partition from one on, up to one before an end.
func of(partition int32, from, end int64) Part {
	part := Part{Partition: partition, Highest: end, Stable: end}
	for ; from < end; from++ {
		rec := version(compute.Project(fmt.Sprintf("p%d", partition)), compute.Version(from)+1, from)
		rec.Partition = partition
		part.Spans = append(part.Spans, Span{First: from, Last: from, Records: []wire.Record{rec}})
	}
	return part
}

// await ends with ctx, or after a time: then true.
func await(ctx context.Context, so time.Duration) bool {
	select {
	case <-time.After(so):
		return true
	case <-ctx.Done():
		return false
	}
}

// A partition without a leader is asked about ever more rarely, and told once, however well another one is read.
func TestAPartitionWithoutALeader(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: -1}}
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, _ time.Duration) ([]Part, error) {
		await(ctx, 10*time.Millisecond)
		return []Part{of(0, from[0], from[0]+1)}, ctx.Err()
	}
	seen, said := c.follow(t, time.Minute)
	if seen[0] < 5000 || c.views > 60 || c.views < 20 {
		t.Errorf("%d records were read, and leaders were asked for %d times", seen[0], c.views)
	}
	if len(said) != 1 || !names(said[0], 1) {
		t.Errorf("said: %v", said)
	}
}

// names says whether an entry names this partition, and no other.
func names(e observer.LoggedEntry, partition int32) bool {
	listed, ok := e.ContextMap()["partitions"].([]any)
	return ok && slices.Equal(listed, []any{partition})
}

// One that cannot be read where it goes on is, too, though what was read of it last is found each time.
func TestAPartitionThatCannotBeRead(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: 1}}
	asked := 0
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, _ time.Duration) (parts []Part, err error) {
		await(ctx, 10*time.Millisecond)
		if at, ok := from[0]; ok {
			parts = append(parts, of(0, at, at+1))
		}
		if at, ok := from[1]; ok && at < 3 {
			part := of(1, at, 3)
			part.Highest, part.Stable = 9, 9
			parts = append(parts, part)
		} else if ok {
			asked++
			parts = append(parts, Part{Partition: 1, Err: errors.New("a checksum is wrong")})
		}
		return parts, ctx.Err()
	}
	seen, said := c.follow(t, time.Minute)
	if seen[0] < 5000 || seen[1] != 3 || c.views > 60 || asked > 60 {
		t.Errorf("%v was read, leaders were asked for %d times, and what is behind %d times", seen, c.views, asked)
	}
	if len(said) != 1 || !names(said[0], 1) {
		t.Errorf("said: %v", said)
	}
}

// The loss of one partition's leader is looked into at once, though another has none for long.
func TestALeaderIsFoundSoon(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: -1}}
	var began, moved, found time.Time
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, _ time.Duration) ([]Part, error) {
		await(ctx, 10*time.Millisecond)
		now := time.Now()
		if began.IsZero() {
			began = now
		}
		switch {
		case now.Sub(began) < 30*time.Second:
		case moved.IsZero():
			c.leads[0], moved = 2, now
			return []Part{{Code: 6}}, nil
		case found.IsZero():
			found = now
		}
		return []Part{of(0, from[0], from[0]+1)}, ctx.Err()
	}
	c.follow(t, time.Minute)
	if took := found.Sub(moved); found.IsZero() || took > 300*time.Millisecond {
		t.Errorf("found after %s", took)
	}
}

// What cannot be read of one partition holds up no other, though a client then answers about none.
func TestAnAnswerThatFailsAsAWhole(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: 1, 2: 1}}
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, wait time.Duration) (parts []Part, err error) {
		if _, bad := from[0]; bad {
			return nil, errors.New("a batch is too large")
		}
		for p, at := range from {
			parts = append(parts, of(p, at, max(at, 3)))
		}
		if await(ctx, wait); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return parts, nil
	}
	if seen, _ := c.follow(t, 10*time.Second); seen[1] != 3 || seen[2] != 3 {
		t.Errorf("%v was read", seen)
	}
}

// A new leader with fewer replicas in sync than are needed does not say how far they have its log, for as long as that
// lasts. Nothing is lost: its log reaches as far as what was read.
func TestALeaderWithTooFewReplicas(t *testing.T) {
	const from, until = time.Minute, 6 * time.Minute
	c := &cluster{view: func(now time.Duration) Leaders {
		if now < from {
			return ledBy(1, 5)
		}
		return ledBy(2, 6)
	}}
	c.fetch = func(ctx context.Context, broker int32, asked map[int32]int64, wait time.Duration) ([]Part, error) {
		part := of(0, asked[0], max(asked[0], 2))
		switch now := time.Since(c.began); {
		case broker == 1 && now >= from:
			return []Part{{Code: 6}}, nil
		case broker == 2 && now < until:
			part = Part{Highest: 1, Stable: 1}
		case broker == 2:
			part = of(0, asked[0], max(asked[0], 4))
		}
		if len(part.Spans) == 0 {
			await(ctx, wait)
		}
		return []Part{part}, ctx.Err()
	}
	seen, said := c.follow(t, 10*time.Minute)
	if seen[0] != 4 || len(said) != 1 || !names(said[0], 0) {
		t.Errorf("%v was read; said: %v", seen, said)
	}
}

// A leader that does not say where its partitions begin keeps a new follower from no others.
func TestALeaderThatDoesNotSayWhereItsPartitionsBegin(t *testing.T) {
	refused := errors.New("refused")
	for name, begin := range map[string]func(context.Context) error{
		"an error":  func(context.Context) error { return refused },
		"no answer": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{leads: map[int32]int32{0: 1, 1: 2, 2: 3}}
			c.begin = func(ctx context.Context, broker int32) error {
				if broker == 2 {
					return begin(ctx)
				}
				return nil
			}
			c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, wait time.Duration) (parts []Part, _ error) {
				for p, at := range from {
					parts = append(parts, of(p, at, max(at, 3)))
				}
				await(ctx, wait)
				return parts, ctx.Err()
			}
			seen, said := c.follow(t, time.Minute)
			if seen[0] != 3 || seen[1] != 0 || seen[2] != 3 || len(said) != 1 || !names(said[0], 1) {
				t.Errorf("%v was read; said: %v", seen, said)
			}
		})
	}
}

// What does not come in time, over a slow connection, is asked for in parts that do.
func TestASlowConnection(t *testing.T) {
	c := &cluster{leads: map[int32]int32{0: 1, 1: 1}, slow: func(bytes int32) bool { return bytes > 300<<10 }}
	c.fetch = func(ctx context.Context, _ int32, from map[int32]int64, wait time.Duration) (parts []Part, _ error) {
		for p, at := range from {
			part := of(p, at, min(max(at, 20), at+1)) // a record an answer
			part.Highest, part.Stable = 20, 20
			parts = append(parts, part)
		}
		await(ctx, wait)
		return parts, ctx.Err()
	}
	if seen, _ := c.follow(t, 30*time.Minute); seen[0] != 20 || seen[1] != 20 {
		t.Errorf("%v was read", seen)
	}
}

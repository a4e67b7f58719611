// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// broker answers with what it is told to, and notes when it was asked.
type broker struct {
	begin  time.Time
	starts map[compute.QueueName]int64
	err    error
	hang   bool
	asked  []time.Duration
}

func (b *broker) Starts(ctx context.Context, queues []compute.Queue) (map[compute.QueueName]int64, error) {
	b.asked = append(b.asked, time.Since(b.begin))
	if b.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	found := map[compute.QueueName]int64{}
	for _, q := range queues {
		if n, ok := b.starts[q.Name]; ok && q.Group == "agents-0" {
			found[q.Name] = n
		}
	}
	return found, b.err
}

// bubble runs a conductor with that broker.
func bubble(t *testing.T, b *broker, f func(k *cell)) {
	synctest.Test(t, func(t *testing.T) {
		k := newCell(t)
		b.begin = time.Now()
		k.c = k.conductor(b)
		k.c.Catalog(offers(), true)
		k.c.Queues([]wire.Record{listed("m1.small")}, true)
		k.gainAll()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		<-k.c.Ready()
		go func() { done <- k.c.Run(ctx) }()
		f(k)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// later lets the bubble's time and the cell's go by together.
func later(k *cell, d time.Duration) wire.Result {
	time.Sleep(d)
	synctest.Wait()
	return k.pass(d)
}

// TestLostWork: published, gone from its queue, unclaimed: published again.
func TestLostWork(t *testing.T) {
	b := &broker{starts: map[compute.QueueName]int64{"m1.small": 8}}
	bubble(t, b, func(k *cell) {
		res := k.read(k.boot(1, "p"))
		k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Offset: 7}}})
		later(k, 30*time.Second)
		synctest.Wait()
		drain(k.wakes)
		res = later(k, time.Millisecond)
		if diff := cmp.Diff([]string{"build.m1.small/0"}, topics(res.Effects)); diff != "" {
			t.Error(diff)
		}
	})
	if len(b.asked) != 1 {
		t.Errorf("asked at %v", b.asked)
	}
}

// TestAskedSeldom: however many partitions want to know, a queue is asked at
// most once in 10 s, and a broker that does not answer is asked again.
func TestAskedSeldom(t *testing.T) {
	for _, b := range []*broker{
		{starts: map[compute.QueueName]int64{"m1.small": 0}},
		{err: errors.New("not now")},
		{},
	} {
		bubble(t, b, func(k *cell) {
			for n, p := range []compute.Project{"p", "q", "other", "rich", "r", "s"} {
				res := k.read(k.boot(n, p))
				k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Offset: int64(n)}}})
				later(k, time.Second)
			}
			for range 60 {
				later(k, time.Second)
			}
		})
		if len(b.asked) < 3 || len(b.asked) > 5 {
			t.Errorf("asked at %v", b.asked)
		}
		for i := 1; i < len(b.asked); i++ {
			if b.asked[i]-b.asked[i-1] < 10*time.Second {
				t.Errorf("asked at %v", b.asked)
			}
		}
	}
}

// TestHangingBroker: a turn does not wait for it, nor does the end of the process.
func TestHangingBroker(t *testing.T) {
	b := &broker{hang: true}
	bubble(t, b, func(k *cell) {
		res := k.read(k.boot(1, "p"))
		k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Offset: 7}}})
		later(k, 30*time.Second)
		k.read(k.boot(2, "p"))
		synctest.Wait()
	})
	if len(b.asked) != 1 {
		t.Errorf("asked at %v", b.asked)
	}
}

// TestUnlistedQueueIsNotAsked: it has no share state.
func TestUnlistedQueueIsNotAsked(t *testing.T) {
	b := &broker{}
	bubble(t, b, func(k *cell) {
		res := k.read(k.boot(1, "p"))
		k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Offset: 7}}})
		k.c.Queues([]wire.Record{wire.Tombstone([]byte("m1.small"))}, false)
		later(k, time.Minute)
		synctest.Wait()
	})
	if len(b.asked) != 0 {
		t.Errorf("asked at %v", b.asked)
	}
}

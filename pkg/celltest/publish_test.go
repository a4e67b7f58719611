// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/followtest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/publishtest"
	"github.com/berth-project/berth/pkg/wire"
)

// Whichever Kafka client an API node has, and with plain JSON and no Berth
// package at all: a hundred machines are booted, seen, deleted. Every request is
// published twice, as by a client that has no idempotent producer and lost an
// answer: each machine is launched once all the same.
func TestEveryPublisherBootsAndDeletesAHundred(t *testing.T) {
	n := 100
	if raced {
		n = 20 // CI has the hundred without it
	}
	each(t, func(t *testing.T, b kafkatest.Broker) {
		for _, w := range publishtest.Distinct() {
			t.Run(w.Name, func(t *testing.T) {
				b := b
				b.Prefix += w.Name + "."
				bootAndDelete(t, b, w, n)
			})
		}
	})
}

func bootAndDelete(t *testing.T, b kafkatest.Broker, w publishtest.Way, n int) {
	t.Helper()
	r := newRig(t, b, roomyHosts(4)...).up()
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	topics := wire.Topics{Prefix: b.Prefix}
	p := w.New(t, b.Addrs, publish.Options{Topics: topics})
	seen := followWith(t, w.Name, b.Addrs, topics)

	var ids []compute.InstanceID
	for i := range n {
		ids = append(ids, publish.NewID())
		q := compute.Request{
			Project:  "p",
			Instance: ids[i],
			Op:       compute.OpBoot,
			Boot:     &compute.Boot{Name: fmt.Sprintf("vm-%03d", i), Flavor: "m1.small"},
		}
		r.must(p(t.Context(), q))
		r.must(p(t.Context(), q))
	}
	seen.await(t, ids, compute.StateActive)
	r.exactlyOnce(ids)
	for _, id := range ids {
		q := compute.Request{Project: "p", Instance: id, Op: compute.OpDelete}
		r.must(p(t.Context(), q))
		r.must(p(t.Context(), q))
	}
	seen.await(t, ids, compute.StateDeleted)
	r.exactlyOnce(ids)
	r.unused(c)
}

// followed is what a follower says of instances.
type followed struct {
	mu    sync.Mutex
	now   map[compute.InstanceID]compute.Instance
	wrong error
	news  chan struct{} // closed and replaced with every batch
}

// followWith follows with the client that is published with; where plain JSON is
// published, with franz-go.
func followWith(t *testing.T, name string, brokers []string, topics wire.Topics) *followed {
	t.Helper()
	if name == "json" {
		name = "franz"
	}
	f := &followed{now: map[compute.InstanceID]compute.Instance{}, news: make(chan struct{})}
	reader := followtest.Named(t, name).New(t, brokers, follow.Options{Topics: topics, Handle: f.take})
	ended := followtest.Start(t, reader)
	select {
	case <-reader.Ready():
	case err := <-ended:
		t.Fatalf("the follower ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the follower is not ready")
	}
	return f
}

func (f *followed) take(b follow.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range b.Changes {
		if ch.Err != nil || ch.Instance == nil {
			f.wrong = fmt.Errorf("%s: removed, or unread: %w", ch.ID, ch.Err)
			continue
		}
		f.now[ch.ID] = *ch.Instance
	}
	close(f.news)
	f.news = make(chan struct{})
}

// await returns when all of these are in the state.
func (f *followed) await(t *testing.T, ids []compute.InstanceID, want compute.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		f.mu.Lock()
		n, news, wrong := 0, f.news, f.wrong
		for _, id := range ids {
			if f.now[id].State == want {
				n++
			}
		}
		f.mu.Unlock()
		if wrong != nil {
			t.Fatal(wrong)
		}
		if n == len(ids) {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("%d of %d are %s after %s", n, len(ids), want, patience)
		}
	}
}

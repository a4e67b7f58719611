// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// broker is the one broker. It is stopped and started again on what it wrote
// down; which host holds which record of a queue is not among that.
type broker struct {
	play *play
	mu   sync.Mutex
	now  *embedded.Broker // nil: it is down
	// inits are the queues whose share state was initialised since it started; of
	// the broker's own goroutine.
	inits map[string]bool
}

func (b *broker) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now != nil {
		return nil
	}
	o := embedded.Options{Brokers: b.play.World.Brokers, Listen: func(network, address string) (net.Listener, error) {
		return b.play.net.Listen(context.Background(), network, address)
	}}
	if b.play.Restarts() {
		o.DataDir = filepath.Join(b.play.dir, "broker")
	}
	var err error
	if b.now, err = embedded.Start(o); err != nil {
		return err
	}
	b.inits = map[string]bool{}
	b.now.Observe(kmsg.CreateTopics, b.created)
	b.now.Observe(kmsg.AlterShareGroupOffsets, b.initialised)
	b.now.Observe(kmsg.InitProducerID, b.play.rec.SeeEpochRequest)
	if slices.ContainsFunc(b.play.Faults, func(f schedule.Fault) bool { return f.Kind == schedule.FaultRing }) {
		b.now.Observe(kmsg.Produce, b.play.produced)
	}
	if b.play.World.Sips {
		b.now.Observe(kmsg.Fetch, sip)
	}
	if b.play.World.Brokers > 1 {
		b.play.stale.watch(b.now)
		b.play.separated.watch(b.now, b.play.ours.Life.Done())
	}
	return nil
}

// created sees topics made, perhaps anew: a tier goes if its work has gone before it was listed, and has no share state when
// it comes again.
func (b *broker) created(req kmsg.Request) {
	for _, t := range req.(*kmsg.CreateTopicsRequest).Topics {
		delete(b.inits, t.Topic)
	}
}

// initialised sees the share state of queues initialised, which is right once.
func (b *broker) initialised(req kmsg.Request) {
	for _, t := range req.(*kmsg.AlterShareGroupOffsetsRequest).Topics {
		if b.inits[t.Topic] && !b.play.Repeats() {
			b.play.rec.AddViolation("share", "", "the share state of %s is initialised once more", t.Topic)
		}
		b.inits[t.Topic] = true
	}
}

// sip has a fetch bring no more of a partition than its next batch.
func sip(req kmsg.Request) {
	for _, t := range req.(*kmsg.FetchRequest).Topics {
		for i := range t.Partitions {
			t.Partitions[i].PartitionMaxBytes = 1
		}
	}
}

// up is the broker; nil: it is down.
func (b *broker) up() *embedded.Broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *broker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now != nil {
		b.now.Close()
		b.now = nil
	}
}

// answer has requests of a kind answered with an error, n times at most, until
// stop is called; spent says whether it was so often, came whether it was at all.
func (b *broker) answer(f schedule.Fault) (stop func(), spent, came func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil {
		return func() {}, func() bool { return true }, func() bool { return false }
	}
	n := max(f.Nth, 1)
	fault := kfake.Fault{Keys: []kmsg.Key{keyOf(f.Key)}, Err: codeOf(f.Code), Count: n, TopLevel: topLevel(f.Key)}
	if f.Topic != "" {
		fault.Topic = prefix + f.Topic
	}
	h := b.now.Fault(fault)
	return h.Remove, func() bool { return h.Hits() >= n }, func() bool { return h.Hits() > 0 }
}

func keyOf(name string) kmsg.Key {
	for k := range int16(100) {
		if kmsg.NameForKey(k) == name {
			return kmsg.Key(k)
		}
	}
	return -1
}

func codeOf(name string) *kerr.Error {
	for code := range int16(140) {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Message == name {
			return e
		}
	}
	panic("there is no error " + name)
}

// topLevel says whether the error of a kind of request is the whole request's.
func topLevel(key string) bool {
	switch key {
	case "ShareFetch", "InitProducerID", "ConsumerGroupHeartbeat", "Heartbeat", "JoinGroup", "SyncGroup", "LeaveGroup":
		return true
	}
	return false
}

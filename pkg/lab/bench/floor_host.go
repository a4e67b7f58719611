// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/share"
	kafkawrite "github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// hosts joins the floor's hosts, each with connections of its own. Each queue
// has so many waiters, the hosts taken in turn.
func (f *floor) hosts() service.Part {
	waits := make([][]wire.QueueRef, f.o.Hosts)
	for i, ref := range f.refs {
		for w := range min(floorWaiters, f.o.Hosts) {
			h := (i*floorWaiters + w) % f.o.Hosts
			waits[h] = append(waits[h], ref)
		}
	}
	parts := make([]service.Part, 0, len(waits))
	for i, refs := range waits {
		parts = append(parts, service.Made(func(context.Context) (service.Part, error) { return f.host(i, refs) }))
	}
	return service.Together(parts...)
}

// host joins one host: it pulls and claims, and says that it has started what it
// is granted.
func (f *floor) host(i int, refs []wire.QueueRef) (service.Part, error) {
	cfg := f.as(lab.RoleAgent)
	producer, err := kafkawrite.NewProducer(cfg)
	if err != nil {
		return nil, err
	}
	h := &floorHost{
		index: i, refs: refs, topics: cfg.Topics, producer: producer,
		puller: share.NewPuller(cfg, share.Options{}), log: cfg.Log,
	}
	g := service.NewGroup()
	g.Closes("producer", func() error { producer.Close(); return nil })
	g.Add("puller", h.puller)
	g.Add("stream", read.NewReader(cfg, read.Options{Topic: cfg.Topics.Host(floorHostID(i)), Handle: h.granted}))
	g.Add("host", service.Func(h.run))
	return g, nil
}

type floorHost struct {
	index    int
	refs     []wire.QueueRef
	topics   wire.Topics
	producer *kafkawrite.Producer
	puller   *share.Puller
	log      *zap.Logger
}

// floorRetry is how long a host leaves queues alone that cannot be fetched.
const floorRetry = 200 * time.Millisecond

// run keeps a fetch open in every session.
func (h *floorHost) run(ctx context.Context) error {
	h.open(ctx, h.refs)
	for {
		select {
		case got := <-h.puller.Results():
			if got.Err != nil {
				h.open(ctx, got.Queues)
				continue
			}
			if got.Record != nil {
				h.puller.Ack(got.Ref, wire.AckAccept)
				h.claim(*got.Record)
			}
			h.puller.Open(got.Session, got.Queues, 0)
		case <-ctx.Done():
			return nil
		}
	}
}

// open finds the sessions of queues and opens a fetch in each, however long it
// takes.
func (h *floorHost) open(ctx context.Context, refs []wire.QueueRef) {
	for len(refs) > 0 {
		sessions, err := h.puller.Place(ctx, refs)
		if err == nil {
			for session, some := range sessions {
				h.puller.Open(session, some, 0)
			}
			return
		}
		h.log.Debug("some queues cannot be fetched", zap.Error(err))
		select {
		case <-time.After(floorRetry):
		case <-ctx.Done():
			return
		}
	}
}

func (h *floorHost) claim(rec wire.Record) {
	if n, ok := readNote(rec); ok {
		n.host = h.index
		h.report(n.as(floorClaim))
	}
}

// granted takes what the host's stream brings.
func (h *floorHost) granted(b read.Batch) {
	for _, rec := range b.Records {
		if n, ok := readNote(rec); ok {
			h.report(n.as(floorStarted))
		}
	}
}

func (h *floorHost) report(n floorNote) {
	h.producer.SendAsync(n.record().To(h.topics.Reports(), wire.AnyPartition), func(_ int64, err error) {
		if err != nil {
			h.log.Warn("a report was lost", zap.Error(err))
		}
	})
}

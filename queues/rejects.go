// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// rejects is what could not be read and is not yet written down. Every manager
// keeps it; the active one writes it. So after a change of the active one, what
// is still in a topic may be there twice: topic, partition and offset tell.
type rejects struct {
	waiting []wire.Record
	bytes   int
}

const (
	// mostRejected bounds what waits to be written, in bytes.
	mostRejected = 64 << 20
	// rejectedValue is how much of a value is kept meanwhile, in bytes.
	rejectedValue = 4 << 10
)

// add says whether there was room.
func (r *rejects) add(rec wire.Record, topic string, reason compute.Reason, now time.Time) bool {
	out := wire.EncodeRejected(compute.Rejected{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Key: rec.Key,
		Value:  rec.Value[:min(len(rec.Value), rejectedValue)],
		Reason: reason, At: now.Round(0).UTC(),
	}).To(topic, wire.AnyPartition)
	size := len(out.Key) + len(out.Value)
	if r.bytes+size > mostRejected {
		return false
	}
	r.waiting, r.bytes = append(r.waiting, out), r.bytes+size
	return true
}

// some are the oldest of those that wait.
func (r *rejects) some(most int) []wire.Record { return r.waiting[:min(len(r.waiting), most)] }

// done drops what has been written.
func (r *rejects) done(recs []wire.Record) {
	for _, rec := range recs {
		r.bytes -= len(rec.Key) + len(rec.Value)
	}
	if r.waiting = r.waiting[len(recs):]; len(r.waiting) == 0 {
		r.waiting = nil
	}
}

// unreadable leaves a record out: what was known before stays. That it was left
// out is written down.
func (m *Manager) unreadable(rec wire.Record, err error) {
	m.reject(rec, "unreadable record", compute.Reason{Code: compute.Malformed, Detail: err.Error()})
}

// believe says whether a beacon is its host's; that it is not is written down.
func (m *Manager) believe(rec wire.Record, b compute.Beacon) bool {
	if m.opts.Hosts == nil {
		m.view.unsigned[b.Host] = rec.Header(wire.HeaderMAC) == nil
		return true
	}
	proved, reason := m.opts.Hosts.Check(rec, b.Host)
	if reason == nil {
		reason = m.view.voices.Observe(b.Host, b.Voice(), proved, time.Time{})
	}
	m.opts.Metrics.believed(proved, reason)
	if reason == nil || reason.Code == compute.Unsigned && m.view.hosts[b.Host] {
		m.view.unsigned[b.Host] = !proved.Signed
	}
	if reason != nil {
		m.reject(rec, "a beacon is not taken for its host's", *reason)
	}
	return reason == nil
}

// reject has a record written down, with the reason why it does not count.
func (m *Manager) reject(rec wire.Record, what string, reason compute.Reason) {
	kept := m.view.rejects.add(rec, m.opts.Topics.Rejected(), reason, m.view.logTime(m.now()))
	m.opts.Logger.Warn(what, zap.String("topic", rec.Topic), zap.Int32("partition", rec.Partition),
		zap.Int64("offset", rec.Offset), zap.Bool("rejected", kept), zap.Stringer("reason", &reason))
	wake(m.rejects)
}

// rejectLoop writes down what could not be read.
func (t *term) rejectLoop(ctx context.Context) {
	fails := failure{}
	for {
		t.view.mu.Lock()
		recs := t.view.rejects.some(t.opts.Batch)
		t.view.mu.Unlock()
		if len(recs) == 0 {
			if !t.next(ctx, t.rejects, 0) {
				return
			}
			continue
		}
		if err := t.within(ctx, func(ctx context.Context) error { return t.opts.Log.Send(ctx, recs...) }); err != nil {
			fails = fails.after(err, t.now(), t.opts.Backoff, t.opts.MaxBackoff, 0)
			t.opts.Logger.Warn("cannot write down what could not be read", zap.Int("records", len(recs)),
				zap.Error(err))
			if !service.Sleep(ctx, fails.again.Sub(t.now())) {
				return
			}
			continue
		}
		fails = failure{}
		t.view.mu.Lock()
		t.view.rejects.done(recs)
		t.view.mu.Unlock()
	}
}

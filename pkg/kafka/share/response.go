// SPDX-License-Identifier: Apache-2.0

package share

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/wire"
)

// handleResponse takes each queue's part of an answer: there may be a record of one
// and an error of another.
func (s *session) handleResponse(r *wire.Pulled, resp *kmsg.ShareFetchResponse, refs map[topicUUID]wire.QueueRef) {
	var troubled []wire.QueueRef
	for i := range resp.Topics {
		t := &resp.Topics[i]
		q, listed := refs[t.TopicID]
		for j := range t.Partitions {
			part := &t.Partitions[j]
			if listed && s.refusal(q, t.TopicID, part.ErrorCode) {
				troubled = append(troubled, q)
			}
			for _, got := range part.AcquiredRecords {
				for offset := got.FirstOffset; offset <= got.LastOffset; offset++ {
					ref := wire.WorkRef{Session: s.id, Queue: q, Offset: offset, Delivery: got.DeliveryCount}
					if !s.receive(r, ref, t.TopicID, part.Records) {
						troubled = append(troubled, q)
					}
				}
			}
		}
	}
	switch {
	case r.Record != nil:
		s.p.counts.records.Add(1)
		s.fails = 0
	case len(troubled) == 0:
		s.fails = 0
	default:
		s.fails++ // or the session would busy-loop on refusals
	}
	if s.fails == 0 {
		s.outage.Fine()
	}
	s.p.places.markSuspect(troubled)
}

// refusal says whether a broker refuses a queue. News of it are logged: what passes by itself at debug, the rest as a
// warning.
func (s *session) refusal(q wire.QueueRef, t topicUUID, code int16) bool {
	if code == 0 {
		delete(s.refused, t)
		return false
	}
	if s.refused[t] != code {
		s.refused[t] = code
		err := kerr.ErrorForCode(code)
		if kafka.IsForbidden(err) {
			needs := access.To(access.Read, access.Topic, s.p.cfg.Topics.Build(q.Name))
			err = s.p.cfg.Classify("pull work", err, needs)
		}
		log := s.log().Warn
		if kerr.IsRetriable(err) {
			log = s.log().Debug // another leader, or none for a moment
		}
		log("a broker refuses a queue", zap.String("queue", string(q.Name)), zap.Error(err))
	}
	return true
}

// receive makes a record of an acquired offset the result, if it is the first.
// A broker in strict mode acquires one; any other is released. It answers false
// if the record cannot be read.
func (s *session) receive(r *wire.Pulled, ref wire.WorkRef, t topicUUID, batches []byte) bool {
	d, how := delivery{t, ref.Offset}, wire.AckRelease
	s.mu.Lock()
	s.state.acquire(d)
	ref.Incarnation = s.state.incarnation
	s.mu.Unlock()
	var err error
	if r.Record == nil && ref.Queue.Name != "" {
		var rec *wire.Record
		// A batch is sent as it was written: it may hold records that are others'.
		if rec, err = s.p.unpack.Record(batches, s.p.cfg.Topics.Build(ref.Queue.Name), ref.Offset); err == nil {
			r.Record, r.Ref = rec, ref
			return true
		}
		s.log().Warn("cannot read what was pulled",
			zap.String("queue", string(ref.Queue.Name)), zap.Int64("offset", ref.Offset), zap.Error(err))
		if errors.Is(err, unpack.ErrNoRecord) {
			how = ackGap
		}
	}
	s.mu.Lock()
	s.state.ack(ref.Incarnation, d, how)
	s.mu.Unlock()
	s.wake()
	return err == nil
}

// SPDX-License-Identifier: Apache-2.0

package share

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// pulling has a puller at a queue with one record.
func pulling(t *testing.T, do func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef)) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		a, err := admin.New(c.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		q := queueIn(t, a, "g", "a")[0]
		if err := a.InitShareState(t.Context(), "g", names(q)); err != nil {
			t.Fatal(err)
		}
		a.Close()
		brokertest.Put(t, c.Cfg, c.Cfg.Topics.Build("a"), 0, "v")
		p := pull(t, c.Cfg, Options{AckWait: time.Millisecond})
		defer p.end()
		do(t, c, p, q)
	})
}

// An error of one queue, where others in the same fetch may have none, costs that
// queue a fetch, and the session a pause.
func TestErrorsOfQueues(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.UnknownServerError, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.InconsistentTopicID, kerr.KafkaStorageError,
		kerr.FencedLeaderEpoch, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress,
		kerr.TopicAuthorizationFailed, kerr.FencedStateEpoch,
	} {
		t.Run(code.Message, func(t *testing.T) {
			pulling(t, func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef) {
				h := c.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.ShareFetch}, Topic: c.Cfg.Topics.Build("a"), Err: code, Count: 2,
				})
				began := time.Now()
				for range 2 {
					if r := p.fetch(t, q); r.Record != nil {
						t.Errorf("%+v", r)
					}
				}
				p.Ack(p.takes(t, "v", q), wire.AckAccept)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				brokertest.HitBy(t, h, 2)
			})
		})
	}
}

// A refused acknowledgement is counted and never sent again: the record may come
// to another, and is denied there.
func TestRefusedAcksAreNotRepeated(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.UnknownServerError, kerr.InvalidRecordState, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition,
		kerr.UnknownTopicID, kerr.FencedStateEpoch, kerr.TopicAuthorizationFailed,
	} {
		t.Run(code.Message, func(t *testing.T) {
			pulling(t, func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef) {
				ref := p.takes(t, "v", q)
				h := c.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.ShareAcknowledge}, Topic: c.Cfg.Topics.Build("a"), Err: code, Count: -1,
				})
				p.Ack(ref, wire.AckAccept)
				brokertest.Passes(time.Minute)
				brokertest.HitBy(t, h, 1)
				if got := p.Counts(); got.AcksRefused != 1 || got.AcksDone != 0 || got.Sessions != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// An acknowledgement that goes by itself and is answered with an error of the
// session ends the session, as a fetch does.
func TestErrorsOfSessionsInAcks(t *testing.T) {
	brokertest.Refuse(kmsg.ShareAcknowledge,
		kerr.UnknownServerError, kerr.ShareSessionNotFound, kerr.InvalidShareSessionEpoch, kerr.InvalidRequest,
		kerr.GroupAuthorizationFailed,
	).Each(t, func(t *testing.T, code *kerr.Error) {
		pulling(t, func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef) {
			ref := p.takes(t, "v", q)
			h := c.Refuse(kmsg.ShareAcknowledge, code, 1)
			p.Ack(ref, wire.AckAccept)
			brokertest.Passes(time.Second)
			brokertest.HitBy(t, h, 1)
			if got := p.Counts(); got.AcksUnknown != 1 || got.Sessions != 1 {
				t.Errorf("%+v", got)
			}
			p.takes(t, "v", q) // nobody acknowledged it
		})
	})
}

// A process that may not pull is told so in each answer.
func TestPullingIsForbidden(t *testing.T) {
	pulling(t, func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef) {
		c.Refuse(kmsg.ShareFetch, kerr.GroupAuthorizationFailed, 1)
		p.open(t, q)
		brokertest.WantKind(t, p.result(t).Err, compute.KindForbidden)
		p.takes(t, "v", q)
	})
}

// A queue that has no place for a moment is asked for again; only that its topic
// is not known says that there is none.
func TestPlacePassesErrors(t *testing.T) {
	for _, of := range []struct {
		code *kerr.Error
		kind compute.Kind
		none bool
	}{
		{kerr.LeaderNotAvailable, compute.KindUnavailable, false},
		{kerr.UnknownServerError, compute.KindUnavailable, false},
		{kerr.UnknownTopicOrPartition, compute.KindNotFound, true},
		{kerr.TopicAuthorizationFailed, compute.KindForbidden, false},
	} {
		t.Run(of.code.Message, func(t *testing.T) {
			pulling(t, func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef) {
				c.Refuse(kmsg.Metadata, of.code, 1)
				sessions, err := p.Place(t.Context(), []wire.QueueRef{q})
				if brokertest.WantKind(t, err, of.kind); len(sessions) > 0 || errors.Is(
					err, wire.ErrNoTopic,
				) != of.none {
					t.Errorf("placed at %v: %v", sessions, err)
				}
				brokertest.Passes(askAgain)
				p.takes(t, "v", q)
			})
		})
	}
}

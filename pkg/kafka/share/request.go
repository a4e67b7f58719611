// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// errUnknownBroker is the error of a session with a broker that no answer has named.
var errUnknownBroker = errors.New("no answer has named this broker")

// errThrottled is the error of a fetch that a quota of Kafka has emptied.
var errThrottled = errors.New("the broker throttles this client: take away its quota (kafka-configs.sh --describe " +
	"--entity-type users, and clients)")

const (
	// connIdleTimeout is below the 10 min after which brokers close what is
	// idle: a client notices at once what it closes itself.
	connIdleTimeout = 9 * time.Minute
	// sessionIdleTimeout is when a session that was not used is given up rather
	// than tried. It holds nothing by then: locks end sooner.
	sessionIdleTimeout = 5 * time.Minute
	// Secondary sessions are used now and then, and do not keep their connection.
	secondaryConnIdleTimeout = 2 * time.Minute
	secondaryIdleTimeout     = time.Minute
	// secondaryWait is how long a fetch in a secondary session waits at most: soon the primary
	// session lists everything again, at less cost.
	secondaryWait = time.Second
	// goodbye is how long a stop waits for a broker.
	goodbye = time.Second
)

// connect makes sure that there is a client with its one connection to where
// the session's broker listens now. It does not connect yet. A session it cannot
// count on is given up.
//
// The broker is the client's only seed. So it need not ask for metadata, over
// a second connection, to find it.
func (s *session) connect() error {
	address := s.p.places.address(s.id.Broker)
	if address == "" {
		return errUnknownBroker
	}
	if s.client != nil {
		if s.address == address && time.Since(s.used) < s.sessionIdle {
			return nil
		}
		s.disconnect()
	}
	cfg := s.p.cfg
	cfg.Brokers = []string{address}
	client, err := kafka.NewClient(cfg, kgo.ConnIdleTimeout(s.idle), kgo.MetadataMaxAge(kafka.NoMetadata))
	if err != nil {
		return err
	}
	s.client, s.address, s.used = client, address, time.Now()
	return nil
}

// disconnect closes the connection, so that the broker releases what the
// session holds, and begins a new session.
func (s *session) disconnect() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
	s.mu.Lock()
	dropped := s.state.lose()
	s.mu.Unlock()
	s.p.counts.acksDropped.Add(uint64(dropped))
}

// sendFetch sends a fetch with the acks that go with it.
func (s *session) sendFetch(
	ctx context.Context, topics []topicUUID, wait time.Duration) (*kmsg.ShareFetchResponse, error,
) {
	s.mu.Lock()
	req, sent := s.state.fetch(topics, wait)
	s.mu.Unlock()
	kresp, err := s.request(ctx, req, wait)
	if err != nil {
		s.p.counts.acksUnknown.Add(sent.all())
		return nil, s.lose(ctx, err)
	}
	s.mu.Lock()
	s.state.fetched(topics)
	s.mu.Unlock()
	s.p.counts.fetches.Add(1)
	resp := kresp.(*kmsg.ShareFetchResponse)
	if resp.ThrottleMillis > 0 && len(resp.Topics) == 0 {
		// A broker that throttles answers nothing, whatever lies in the queues, and may have acquired some of it.
		s.p.counts.acksUnknown.Add(sent.all())
		if s.fails++; s.fails >= pace.LogAfter {
			s.outage.Failed(errThrottled)
		}
		return nil, compute.Unavailable("pull work", errThrottled)
	}
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if part.AcknowledgeErrorCode != 0 {
				s.refuse(sent, t.TopicID, part.AcknowledgeErrorCode)
			}
		}
	}
	s.p.counts.acksDone.Add(sent.all())
	return resp, nil
}

// sendAcks sends the acks that wait, if any, by themselves.
func (s *session) sendAcks(ctx context.Context) error {
	s.mu.Lock()
	req, sent := s.state.acknowledge()
	s.mu.Unlock()
	if req == nil {
		return nil
	}
	kresp, err := s.request(ctx, req, 0)
	if err != nil {
		s.p.counts.acksUnknown.Add(sent.all())
		return s.lose(ctx, err)
	}
	s.mu.Lock()
	s.state.answered()
	s.mu.Unlock()
	for _, t := range kresp.(*kmsg.ShareAcknowledgeResponse).Topics {
		for _, part := range t.Partitions {
			if part.ErrorCode != 0 {
				s.refuse(sent, t.TopicID, part.ErrorCode)
			}
		}
	}
	s.p.counts.acksDone.Add(sent.all())
	return nil
}

// refuse notes that the broker did not agree to the acks of one topic. Nothing
// is to be done about it.
func (s *session) refuse(sent sentAcks, t topicUUID, code int16) {
	s.p.counts.acksRefused.Add(sent[t])
	s.log().Debug("acks were refused", zap.Uint64("acks", sent[t]), zap.Error(kerr.ErrorForCode(code)))
	delete(sent, t)
}

// request sends one request and waits for its answer: as long as the broker
// may wait itself, and then as long as requests may take, unless another
// broker says meanwhile that this one no longer leads.
func (s *session) request(ctx context.Context, req kmsg.Request, wait time.Duration) (kmsg.Response, error) {
	ctx, cancelTimeout := context.WithTimeout(ctx, wait+s.p.cfg.RequestTimeout)
	defer cancelTimeout()
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.p.places.watch(ctx, s.id.Broker, s.queues, wait, cancel) })
	resp, err := s.client.SeedBrokers()[0].Request(ctx, req)
	if err != nil && errors.Is(context.Cause(ctx), fetch.ErrMoved) {
		err = fetch.ErrMoved
	}
	cancel(nil)
	watching.Wait()
	s.used = time.Now()
	if err != nil {
		return nil, err
	}
	return resp, topLevel(resp)
}

// topLevel is the error of a whole answer.
func topLevel(resp kmsg.Response) error {
	switch resp := resp.(type) {
	case *kmsg.ShareFetchResponse:
		return kerr.ErrorForCode(resp.ErrorCode)
	case *kmsg.ShareAcknowledgeResponse:
		return kerr.ErrorForCode(resp.ErrorCode)
	}
	return nil
}

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

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// errUnknownBroker is the error of a lane whose broker no answer has named.
var errUnknownBroker = errors.New("no answer has named this broker")

const (
	// laneIdleTimeout is below the 10 min after which brokers close what is
	// idle: a client notices at once what it closes itself.
	laneIdleTimeout = 9 * time.Minute
	// sessionIdleTimeout is when a session that was not used is given up rather
	// than tried. It holds nothing by then: locks end sooner.
	sessionIdleTimeout = 5 * time.Minute
	// Spare lanes are used now and then, and do not keep their connection.
	spareIdleTimeout        = 2 * time.Minute
	spareSessionIdleTimeout = time.Minute
	// spareWait is how long a fetch in a spare lane waits at most: soon the first
	// lane lists everything again, at less cost.
	spareWait = time.Second
	// goodbye is how long a stop waits for a broker.
	goodbye = time.Second
)

// connect makes sure that there is a client with its one connection to where
// the lane's broker listens now. It does not connect yet. A session it cannot
// count on is given up.
//
// The broker is the client's only seed. So it need not ask for metadata, over
// a second connection, to find it.
func (l *lane) connect() error {
	address := l.p.places.address(l.id.Broker)
	if address == "" {
		return errUnknownBroker
	}
	if l.client != nil {
		if l.address == address && time.Since(l.used) < l.sessionIdle {
			return nil
		}
		l.disconnect()
	}
	cfg := l.p.cfg
	cfg.Brokers = []string{address}
	client, err := kafka.NewClient(cfg, kgo.ConnIdleTimeout(l.idle), kgo.MetadataMaxAge(kafka.NoMetadata))
	if err != nil {
		return err
	}
	l.client, l.address, l.used = client, address, time.Now()
	return nil
}

// disconnect closes the connection, so that the broker releases what the
// session holds, and begins a new session.
func (l *lane) disconnect() {
	if l.client != nil {
		l.client.Close()
		l.client = nil
	}
	l.mu.Lock()
	dropped := l.state.lose()
	l.mu.Unlock()
	l.p.counts.acksDropped.Add(uint64(dropped))
}

// sendFetch sends a fetch with the acks that ride on it.
func (l *lane) sendFetch(
	ctx context.Context, topics []topicUUID, wait time.Duration) (*kmsg.ShareFetchResponse, error,
) {
	l.mu.Lock()
	req, sent := l.state.fetch(topics, wait)
	l.mu.Unlock()
	kresp, err := l.request(ctx, req, wait)
	if err != nil {
		l.p.counts.acksUnknown.Add(sent.all())
		return nil, l.lose(ctx, err)
	}
	l.mu.Lock()
	l.state.fetched(topics)
	l.mu.Unlock()
	l.p.counts.fetches.Add(1)
	resp := kresp.(*kmsg.ShareFetchResponse)
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if part.AcknowledgeErrorCode != 0 {
				l.refuse(sent, t.TopicID, part.AcknowledgeErrorCode)
			}
		}
	}
	l.p.counts.acksDone.Add(sent.all())
	return resp, nil
}

// sendAcks sends the acks that wait, if any, by themselves.
func (l *lane) sendAcks(ctx context.Context) error {
	l.mu.Lock()
	req, sent := l.state.acknowledge()
	l.mu.Unlock()
	if req == nil {
		return nil
	}
	kresp, err := l.request(ctx, req, 0)
	if err != nil {
		l.p.counts.acksUnknown.Add(sent.all())
		return l.lose(ctx, err)
	}
	l.mu.Lock()
	l.state.answered()
	l.mu.Unlock()
	for _, t := range kresp.(*kmsg.ShareAcknowledgeResponse).Topics {
		for _, part := range t.Partitions {
			if part.ErrorCode != 0 {
				l.refuse(sent, t.TopicID, part.ErrorCode)
			}
		}
	}
	l.p.counts.acksDone.Add(sent.all())
	return nil
}

// refuse notes that the broker did not agree to the acks of one topic. Nothing
// is to be done about it.
func (l *lane) refuse(sent sentAcks, t topicUUID, code int16) {
	l.p.counts.acksRefused.Add(sent[t])
	l.log().Debug("acks were refused", zap.Uint64("acks", sent[t]), zap.Error(kerr.ErrorForCode(code)))
	delete(sent, t)
}

// request sends one request and waits for its answer: as long as the broker
// may wait itself, and then as long as requests may take, unless another
// broker says meanwhile that this one no longer leads.
func (l *lane) request(ctx context.Context, req kmsg.Request, wait time.Duration) (kmsg.Response, error) {
	ctx, cancelTimeout := context.WithTimeout(ctx, wait+l.p.cfg.RequestTimeout)
	defer cancelTimeout()
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { l.p.places.watch(ctx, l.id.Broker, l.queues, wait, cancel) })
	resp, err := l.client.SeedBrokers()[0].Request(ctx, req)
	if err != nil && errors.Is(context.Cause(ctx), fetch.ErrMoved) {
		err = fetch.ErrMoved
	}
	cancel(nil)
	watching.Wait()
	l.used = time.Now()
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

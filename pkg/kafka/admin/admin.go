// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
)

// Admin makes and removes topics, initialises share state and asks how far
// queues are. It is safe for concurrent use.
//
// Everything but InitShareState may be done any number of times. Large
// requests are cut into pieces, so an error may leave a part done: do it again.
type Admin struct {
	cfg    kafka.Config
	client *kgo.Client
	kadm   *kadm.Client
	share  shareTimes
}

// most topics in one request.
const most = 1000

// New makes an admin client. It connects when it is first used.
func New(cfg kafka.Config) (*Admin, error) { return newAdmin(cfg) }

func newAdmin(cfg kafka.Config, opts ...kgo.Opt) (*Admin, error) {
	cfg = cfg.WithDefaults()
	client, err := kafka.NewClient(cfg, opts...)
	if err != nil {
		return nil, err
	}
	a := &Admin{cfg: cfg, client: client, kadm: kadm.NewClient(client), share: defaultShareTimes()}
	a.kadm.SetTimeoutMillis(int32(cfg.RequestTimeout / time.Millisecond))
	return a, nil
}

// Close ends the connections. A second call does nothing.
func (a *Admin) Close() { a.client.Close() }

// WaitReachable answers nil once a broker answers, and the end of ctx as KindTimeout. It logs once that it waits.
// What it asks about are the cell's own topics, and those that are expected: the next clients need both. An answer of
// the last few seconds that Known holds will do.
func (a *Admin) WaitReachable(ctx context.Context) error {
	if m, _ := a.cfg.Known.About(a.cfg.Topics.Requests(), time.Now().Add(-kafka.ReachedFor)); m != nil {
		return nil
	}
	_, err := retry.Do(ctx, a.cfg.Log, "waiting for Kafka", nil, func() (*kmsg.MetadataResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
		defer cancel()
		topics, asked := a.cfg.Known.Expects(), time.Now()
		topics = append(topics, a.cfg.Topics.Own()...)
		m, err := fetch.Metadata(ctx, a.client, topics...)
		if err == nil {
			a.cfg.Known.Learn(m, asked)
		}
		return m, err
	})
	return a.cfg.Classify("reach Kafka", err)
}

// Found answers how many partitions the cell has, if a recent answer that Known holds
// says that none of its own topics is missing; else 0, and brokers must be asked. So a
// process that starts in a cell that there is asks about it once.
func (a *Admin) Found() int32 {
	var found []kmsg.MetadataResponseTopic
	for _, topic := range a.cfg.Topics.Own() {
		m, _ := a.cfg.Known.About(topic, time.Now().Add(-kafka.KnownFor))
		if m == nil {
			return 0
		}
		found = append(found, m.Topics[0])
	}
	n, err := agree(a.cfg.Topics, found)
	if err != nil {
		return 0
	}
	return n
}

// describes is the right to ask about a topic.
func describes(topic string) access.Right { return access.To(access.Describe, access.Topic, topic) }

// pieces cuts what is too much for one request.
func pieces[T any](all []T) iter.Seq[[]T] { return slices.Chunk(all, most) }

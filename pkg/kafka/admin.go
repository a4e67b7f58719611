package kafka

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Admin makes and removes topics, initialises share state and asks how far
// queues are. It is safe for concurrent use.
//
// Everything but InitShareState may be done any number of times. Large
// requests are cut into pieces, so an error may leave a part done: do it again.
type Admin struct {
	cfg    Config
	client *kgo.Client
	kadm   *kadm.Client
	share  shareTimes
}

// most topics in one request.
const most = 1000

// NewAdmin makes an admin client. It connects when it is first used.
func NewAdmin(cfg Config) (*Admin, error) { return newAdmin(cfg) }

func newAdmin(cfg Config, opts ...kgo.Opt) (*Admin, error) {
	cfg = cfg.withDefaults()
	client, err := newClient(cfg, opts...)
	if err != nil {
		return nil, err
	}
	a := &Admin{cfg: cfg, client: client, kadm: kadm.NewClient(client), share: defaultShareTimes()}
	a.kadm.SetTimeoutMillis(int32(cfg.RequestTimeout / time.Millisecond))
	return a, nil
}

// Close ends the connections. A second call does nothing.
func (a *Admin) Close() { a.client.Close() }

// WaitReachable answers nil once a broker answers, and the end of ctx as
// KindTimeout. It logs once that it waits.
func (a *Admin) WaitReachable(ctx context.Context) error {
	_, err := retry(ctx, a.cfg.Log, "waiting for Kafka", nil, func() (kadm.Metadata, error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return a.kadm.BrokerMetadata(ctx)
	})
	return classify("reach Kafka", err)
}

// pieces cuts what is too much for one request.
func pieces[T any](all []T) iter.Seq[[]T] { return slices.Chunk(all, most) }

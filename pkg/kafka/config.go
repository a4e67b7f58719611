// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// Config is what every client of a cell shares. It is a value: a copy can be
// changed without harm to others.
type Config struct {
	Brokers  []string    // host:port of some brokers; at least one
	ClientID string      // shown in the brokers' logs and quotas
	Topics   wire.Topics // the names of the cell's topics

	// Dial opens connections; nil: plain TCP with a time-out of 10 s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	SASL *SASL // how this client signs in; nil: it does not
	// As is the Kafka user of this process and its role, for messages about what it may not do.
	As  access.Identity
	Log *zap.Logger // nil: silent

	Metrics *Metrics // counts what clients do; nil: nobody counts
	Outage  *Outage  // shared by all clients of the process; nil: each tells its own trouble
	Known   *Known   // shared by all clients of the process; nil: each asks brokers by itself

	// RequestTimeout is how long an answer may take beyond the time a request
	// itself may wait. It must be longer than a broker takes to be declared
	// dead (9 s by Kafka's default), or a patient wait becomes an unknown
	// outcome. 0: DefaultRequestTimeout.
	RequestTimeout time.Duration
}

// DefaultRequestTimeout outlasts the loss of a broker with Kafka's own settings.
const DefaultRequestTimeout = 15 * time.Second

const (
	// metadataMinAge is how soon a client asks for the leaders again. kgo's 5 s would be the time a leader change or
	// a new topic costs.
	metadataMinAge = 100 * time.Millisecond
	// IdleTimeout keeps a connection that is used now and then.
	IdleTimeout = 2 * time.Minute
	// AskedTimeout ends a connection that was good for a question: a client opens one to ask for the leaders, and
	// another for every kind of request, and a thousand agents would keep a broker's file handles for nothing.
	AskedTimeout = 10 * time.Second
	// NoMetadata is how often a client of one broker asks for the leaders, which it need not know: as seldom as it
	// can be told to.
	NoMetadata = time.Hour
)

func (c Config) WithDefaults() Config {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.ClientID == "" {
		c.ClientID = "berth"
	}
	c.Brokers = slices.Clone(c.Brokers)
	return c
}

// NewClient makes a client with the settings all of Berth's have; opts come on
// top. It connects to nobody yet.
func NewClient(cfg Config, opts ...kgo.Opt) (*kgo.Client, error) {
	cfg = cfg.WithDefaults()
	if len(cfg.Brokers) == 0 {
		return nil, compute.Invalid("brokers", "", "name at least one broker as host:port")
	}
	conns := newConnections(cfg.Dial)
	base := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.RequestTimeoutOverhead(cfg.RequestTimeout),
		kgo.RetryTimeout(2 * cfg.RequestTimeout),
		kgo.RetryBackoffFn(pace.Backoff),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.ConnIdleTimeout(IdleTimeout),
		kgo.DisableClientMetrics(),
		kgo.WithLogger(clientLog{cfg.Log.Named("kgo").Sugar(), cfg.Outage}),
		kgo.Dialer(conns.open),
		kgo.WithHooks(conns, watchSilence()),
	}
	if cfg.SASL != nil {
		base = append(base, kgo.SASL(cfg.SASL.mechanism()))
	}
	if cfg.Metrics != nil {
		base = append(base, kgo.WithHooks(&cfg.Metrics.requests))
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, &compute.Error{
			Op:      "kafka client",
			Kind:    compute.KindInvalid,
			Message: "the settings contradict each other",
			Cause:   err,
		}
	}
	return cl, nil
}

// clientLog passes what franz-go says on. Its warnings are about things that
// it then handles itself, so they are debugging notes here; what matters comes
// back as an error of some call.
type clientLog struct {
	log    *zap.SugaredLogger
	outage *Outage
}

// groupErrored is what kgo says of each try to be a member that failed; a
// groupTrouble hears of it too.
const groupErrored = "group manage loop errored"

func (l clientLog) Level() kgo.LogLevel {
	if l.log.Level().Enabled(zap.DebugLevel) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelError
}

func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	fields, givenUp := make([]any, 0, len(keyvals)), false
	for i := 0; i+1 < len(keyvals); i += 2 {
		fields = append(fields, fmt.Sprint(keyvals[i]), keyvals[i+1])
		err, _ := keyvals[i+1].(error)
		givenUp = givenUp || errors.Is(err, context.Canceled) // by us: no trouble
	}
	if level == kgo.LogLevelError && !givenUp && msg != groupErrored && l.outage.news(msg) {
		l.log.Warnw(msg, fields...)
		return
	}
	l.log.Debugw(msg, fields...)
}

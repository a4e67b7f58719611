// SPDX-License-Identifier: Apache-2.0

package elect

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka"
)

// Elector takes part in choosing one process out of several: the member of a
// consumer group that owns the one partition of a topic is elected. A process
// that dies is replaced after ElectionTimeout, one that stops at once.
//
// The old one may believe itself elected for a moment longer than it is: what
// an elected process does must be harmless when done by two.
type Elector struct {
	cfg     kafka.Config
	group   string
	topic   string
	ready   chan struct{}
	elected chan bool
}

// ElectionTimeout is how long a process may be silent before another is elected.
const ElectionTimeout = 10 * time.Second

// NewElector takes part in group over topic, which must have one partition.
func NewElector(cfg kafka.Config, group, topic string) *Elector {
	return &Elector{
		cfg: cfg.WithDefaults(), group: group, topic: topic,
		ready: make(chan struct{}), elected: make(chan bool, 1),
	}
}

// Ready is closed once this process takes part, elected or not.
func (e *Elector) Ready() <-chan struct{} { return e.ready }

// Elected tells changes: true when this process is elected, false when it no
// longer is. Only the latest is kept for a slow reader.
func (e *Elector) Elected() <-chan bool { return e.elected }

// Run takes part until ctx ends, then leaves so that another is elected at once.
func (e *Elector) Run(ctx context.Context) error {
	trouble := kafka.NewGroupTrouble(e.cfg, e.group, e.topic)
	defer trouble.Over()
	cl, err := kafka.NewClient(
		e.cfg,
		kgo.WithHooks(trouble),
		kgo.ConsumerGroup(e.group),
		kgo.ConsumeTopics(e.topic),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(ElectionTimeout),
		kgo.HeartbeatInterval(ElectionTimeout/5),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			trouble.Over()
			e.tell(len(got) > 0, got)
		}),
		kgo.OnPartitionsRevoked(
			func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { e.tell(false, lost) },
		),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { e.tell(false, lost) }),
	)
	if err != nil {
		return err
	}
	cl.PauseFetchTopics(e.topic) // only its owner matters, not what is in it
	close(e.ready)
	<-ctx.Done()
	cl.CloseAllowingRebalance()
	e.tell(false, map[string][]int32{e.topic: {0}})
	return nil
}

// tell keeps the latest news; callbacks of one client do not overlap.
func (e *Elector) tell(elected bool, about map[string][]int32) {
	if len(about) == 0 {
		return
	}
	select {
	case <-e.elected:
	default:
	}
	e.elected <- elected
}

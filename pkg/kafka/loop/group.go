// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// fence is the identity of this process in the group: what a commit of positions must carry so that Kafka refuses it
// once somebody else may own a partition.
type fence struct {
	member     string
	generation int32
}

// groupNews is what the group says. The sender waits until done is closed: the group goes on only after the loop has
// acted on it.
type groupNews struct {
	kind  newsKind
	fence fence          // of assigned
	own   []int32        // of assigned: the partitions of this process from now on
	write compute.Schema // of assigned: the newest schema that all members read
	err   error          // the assignment makes no sense
	done  chan struct{}
}

type newsKind uint8

const (
	// newsAssigned: a new generation has begun, with these partitions.
	newsAssigned newsKind = iota
	// newsRevoked: the group shares out anew. Nothing may be written any more
	// under this generation once done is closed.
	newsRevoked
	// newsLost: the group went on without this process.
	newsLost
)

// membership is this process in the consumer group. It reads nothing: only which member has which partition matters.
type membership struct {
	cfg        kafka.Config
	client     *kgo.Client
	group      string
	topics     [inputTopics]string
	news       chan groupNews
	lost       atomic.Bool   // newsLost is under way: nothing may be committed
	has        atomic.Value  // []int32: what this process asks to keep
	ended      chan struct{} // closed before leaving: nobody listens to news
	broken     chan error    // holds one: the group will never take this process
	cancel     context.CancelFunc
	answeredAt atomic.Pointer[time.Time] // when what the group last answered was asked
	agreed     atomic.Uint32             // the schema that the last assignment lets this process write

	trouble *kafka.GroupTrouble
}

func join(cfg kafka.Config, opts Options, topics [inputTopics]string) (*membership, error) {
	m := &membership{
		cfg:    cfg,
		group:  opts.Group,
		topics: topics,
		news:   make(chan groupNews),
		ended:  make(chan struct{}),
		broken: make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.trouble = kafka.NewGroupTrouble(cfg, opts.Group, topics[requests])
	var err error
	m.client, err = kafka.NewClient(
		cfg,
		kgo.WithContext(ctx),
		kgo.WithHooks(m, m.trouble),
		kgo.ConsumerGroup(opts.Group),
		kgo.ConsumeTopics(topics[:]...),
		kgo.Balancers(coPartitioned{has: m.keeps, reads: opts.Reads, agreed: m.agree}),
		kgo.SessionTimeout(opts.SessionTimeout),
		kgo.RebalanceTimeout(rebalanceTimeout(opts)),
		kgo.HeartbeatInterval(opts.Heartbeat),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(
			func(_ context.Context, cl *kgo.Client, own map[string][]int32) { m.assigned(cl, own) },
		),
		kgo.OnPartitionsRevoked(
			func(context.Context, *kgo.Client, map[string][]int32) { m.tell(groupNews{kind: newsRevoked}) },
		),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {
			m.lost.Store(true)
			m.has.Store([]int32(nil))
			m.tell(groupNews{kind: newsLost})
		}),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	m.client.PauseFetchTopics(topics[:]...)
	return m, nil
}

// assigned says which partitions are ours in both topics.
func (m *membership) assigned(cl *kgo.Client, own map[string][]int32) {
	m.lost.Store(false)
	m.noteAnswer(time.Now())
	m.trouble.Over()
	n := groupNews{kind: newsAssigned, write: compute.Schema(m.agreed.Load())}
	n.fence.member, n.fence.generation = cl.GroupMetadata()
	n.own = slices.Sorted(slices.Values(own[m.topics[requests]]))
	if !slices.Equal(n.own, slices.Sorted(slices.Values(own[m.topics[reports]]))) {
		n.err = compute.Conflict("topic", m.topics[reports], "was not shared out together with "+m.topics[requests],
			"let nothing but conductors of one version join the group, and give both topics the same number of "+
				"partitions")
	}
	m.has.Store(n.own)
	m.tell(n)
}

func (m *membership) agree(n compute.Schema) { m.agreed.Store(uint32(n)) }

func (m *membership) keeps() []int32 {
	has, _ := m.has.Load().([]int32)
	return has
}

// OnBrokerE2E hears when a heartbeat was answered. The group counts from when it
// came in, so what is noted is when it went out.
func (m *membership) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if kmsg.Key(key) == kmsg.Heartbeat && e2e.Err() == nil {
		m.noteAnswer(time.Now().Add(-e2e.DurationE2E()))
	}
}

func (m *membership) noteAnswer(at time.Time) { m.answeredAt.Store(&at) }

// silent says whether the group has not answered for so long that it may have
// given the partitions to another process. Turns wait then: what they decided
// would be refused, and nothing would come of it but work for the brokers.
func (r *loopRun) silent(now time.Time) bool {
	answered := r.group.answeredAt.Load()
	return answered != nil && now.Sub(*answered) >= r.loop.opts.SessionTimeout
}

// OnGroupManageError hears why the group does not work out; most of it passes.
func (m *membership) OnGroupManageError(err error) {
	switch {
	case kafka.IsForbidden(err):
		err = m.cfg.Classify("join the group", err, m.needs(), access.To(access.Read, access.Topic, m.topics[requests]))
	case errors.Is(err, kerr.InvalidSessionTimeout):
		err = &compute.Error{
			Op:      "join the group",
			Kind:    compute.KindInvalid,
			Field:   "session timeout",
			Message: "is out of the brokers' range",
			Remedy:  "set it between group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers",
			Cause:   err,
		}
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		err = &compute.Error{
			Op:      "join the group",
			Kind:    compute.KindConflict,
			Message: "its members share partitions out in another way",
			Remedy:  "let nothing but conductors join the group",
			Cause:   err,
		}
	default:
		return
	}
	select {
	case m.broken <- err:
	default:
	}
}

// needs is the right to be a member.
func (m *membership) needs() access.Right { return access.To(access.Read, access.Group, m.group) }

// tell hands news over and waits until the loop has acted on it.
func (m *membership) tell(n groupNews) {
	n.done = make(chan struct{})
	select {
	case m.news <- n:
	case <-m.ended:
		return
	}
	select {
	case <-n.done:
	case <-m.ended:
	}
}

// current asks the group whether this process is a member of its present
// generation. An error is no answer, or that it is not, or not for long.
func (m *membership) current(ctx context.Context, through *kgo.Client) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = m.group
	req.MemberID, req.Generation = m.client.GroupMetadata()
	resp, err := req.RequestWith(ctx, kafka.Prompt(through))
	if err != nil {
		return err
	}
	return kafka.Lacking(kerr.ErrorForCode(resp.ErrorCode), m.needs())
}

// leave tells the group, through another client, so that others take over at
// once. This one's own way would wait for a join that is under way, and leave
// behind a member that nobody is.
func (m *membership) leave(ctx context.Context, through *kgo.Client) {
	close(m.ended)
	member, _ := m.client.GroupMetadata()
	m.cancel()
	m.client.CloseAllowingRebalance()
	m.trouble.Over()
	for fails := 1; member != "" && fails <= leaveTries; fails++ {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = m.group, member
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.MemberID = member
		req.Members = append(req.Members, rm)
		// An answer is enough. Without one the group finds out by itself, later.
		if _, err := req.RequestWith(ctx, kafka.Prompt(through)); err == nil || pace.Sleep(ctx, pace.Backoff(fails)) != nil {
			return
		}
	}
}

// leaveTries outlast a connection that was closed and a coordinator that moved.
const leaveTries = 4

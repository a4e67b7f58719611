package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Admin makes and removes topics, initialises share state and asks how far
// queues are. It is safe for concurrent use.
type Admin struct {
	cfg    Config
	client *kgo.Client
}

// NewAdmin makes an admin client. It connects when it is first used.
func NewAdmin(cfg Config) (*Admin, error) { return newAdmin(cfg) }

func newAdmin(cfg Config, opts ...kgo.Opt) (*Admin, error) {
	client, err := newClient(cfg, opts...)
	if err != nil {
		return nil, err
	}
	return &Admin{cfg: cfg.withDefaults(), client: client}, nil
}

// Close ends the connections. A second call does nothing.
func (a *Admin) Close() { a.client.Close() }

// QueueProgress is how far a share group is with one queue.
type QueueProgress struct {
	Queue    wire.QueueRef
	TopicID  compute.TopicID // the incarnation this is about; compare with Queue.TopicID
	Start    int64           // share start offset: everything below is done. -1: not initialised
	LogStart int64           // the oldest offset that still exists
	LogEnd   int64           // the offset the next record gets
	Depth    int64           // records that are not done
	Err      error           // wire.ErrNoTopic, or why nothing is known; then the rest is 0
}

// Version is what the brokers are.
type Version struct {
	Kafka string // the version the brokers' API looks like: "v4.3"
	Share bool   // share groups as Berth needs them are there and on
}

var errNotYet = errors.New("not written yet")

// EnsureTopics makes the cell's own topics where they are missing: requests,
// reports and instances with that many partitions, the others with one.
// Topics that exist are left as they are, but their partition counts must
// agree (KindConflict). replication 0 is the brokers' default.
func (a *Admin) EnsureTopics(ctx context.Context, partitions int32, replication int16) error {
	return errNotYet
}

// EnsureQueueTopics makes the topics of these queues where they are missing and
// answers the id of each.
func (a *Admin) EnsureQueueTopics(ctx context.Context, queues []compute.QueueName, replication int16) (map[compute.QueueName]compute.TopicID, error) {
	return nil, errNotYet
}

// EnsureHostTopic makes the command stream of a host if it is missing.
func (a *Admin) EnsureHostTopic(ctx context.Context, host compute.HostID, replication int16) error {
	return errNotYet
}

// DeleteTopics removes topics; those that do not exist are no error.
func (a *Admin) DeleteTopics(ctx context.Context, topics ...string) error { return errNotYet }

// TopicIDs answers the ids of topics; one that does not exist is not in the answer.
func (a *Admin) TopicIDs(ctx context.Context, topics ...string) (map[string]compute.TopicID, error) {
	return nil, errNotYet
}

// InitShareState makes the share state of these queues in a group, exactly once
// for each incarnation of a topic.
func (a *Admin) InitShareState(ctx context.Context, group string, queues []compute.QueueName) error {
	return errNotYet
}

// QueueProgress asks how far queues are; the answers are in the order of queues.
func (a *Admin) QueueProgress(ctx context.Context, queues []wire.QueueRef) ([]QueueProgress, error) {
	return nil, errNotYet
}

// DeleteRecordsBelow removes the records of queues below these offsets.
func (a *Admin) DeleteRecordsBelow(ctx context.Context, below map[compute.QueueName]int64) error {
	return errNotYet
}

// CheckVersion refuses brokers that Berth cannot work with.
func (a *Admin) CheckVersion(ctx context.Context) (Version, error) { return Version{}, errNotYet }

// WaitReachable answers when a broker answers, or with ctx's end.
func (a *Admin) WaitReachable(ctx context.Context) error { return errNotYet }

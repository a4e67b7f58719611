// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Options say what is followed.
type Options struct {
	Topics wire.Topics // of the cell: wire.Topics{Prefix: wire.DefaultPrefix} unless it was configured otherwise
	// Handle takes what was read; required. It is called from one goroutine, and
	// nothing else is handed over while it runs.
	Handle func(Batch)
	// Wait is how long a broker may hold a question to which there is no news;
	// news come at once. At most MaxWait; 0: DefaultWait.
	Wait time.Duration
	Log  *zap.Logger // nil: silent
}

// DefaultWait is one question a broker in two seconds while nothing happens.
const DefaultWait = 2 * time.Second

// MaxWait is below what clients and brokers take for a dead connection.
const MaxWait = 30 * time.Second

// Batch is what one answer of a broker brought.
type Batch struct {
	Changes []Change // in order for each project
	// CaughtUp says that, with this batch, everything has been handed over that
	// the topic held when the follower began. It stays true. The first such
	// batch may have no changes, and has none for an empty topic.
	CaughtUp bool
}

// Change is the new state of one instance, which project and id name together:
// another project may have one of the same id.
type Change struct {
	Project compute.Project
	ID      compute.InstanceID
	// Instance is the whole truth about it. nil: its record was removed, long
	// after it was deleted; or Err says why it cannot be read.
	Instance *compute.Instance
	// Err is a record that cannot be read: written by a newer Berth, say. Project
	// and ID are set if its key could be read. What was known before is stale.
	Err       error
	Partition int32
	Offset    int64
}

// Removed says that the record is gone, and what was known can be forgotten.
func (c Change) Removed() bool { return c.Instance == nil && c.Err == nil }

// Follower reads the instances topic. The adapters make it. It keeps the
// version of every instance, about 100 bytes each, and what one answer of each
// broker brought.
type Follower struct {
	client Client
	topic  string
	opts   Options
	ready  chan struct{}
}

// New makes a follower of what an adapter made of a client.
func New(c Client, o Options) (*Follower, error) {
	if o.Handle == nil {
		return nil, compute.Invalid("Handle", "nil", "give a function that takes what was read")
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Wait < 0 || o.Wait > MaxWait {
		return nil, compute.Invalid("Wait", o.Wait.String(), "give at most "+MaxWait.String())
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Follower{client: c, topic: o.Topics.Instances(), opts: o, ready: make(chan struct{})}, nil
}

// Ready is closed once Handle has had a batch that is caught up.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Run follows until ctx ends, and then answers nil. It may be called once.
//
// It survives the loss of brokers and changes of leaders, and waits for a topic
// or for brokers that are not there. It ends with an error where going on would
// mislead: KindForbidden, or KindConflict if what was handed over is of a log
// that exists no more (the topic was deleted and made again, or lost records).
// Then a new follower and an empty table are needed.
func (f *Follower) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := newLoop(f)
	err = l.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	l.drain()
	if closed := f.client.Close(); err == nil && closed != nil {
		err = &compute.Error{
			Op: "follow " + f.topic, Kind: compute.KindInternal,
			Message: "the client's connections cannot be closed", Cause: closed,
		}
	}
	return err
}

// Forbidden says that the client's Kafka user may not.
func Forbidden(cause error) error {
	return &compute.Error{
		Op: "follow instances", Kind: compute.KindForbidden, Message: "Kafka does not allow it",
		Remedy: "check the ACLs of this process's Kafka user: READ and DESCRIBE on the instances topic",
		Cause:  cause,
	}
}

// Unfit refuses a client by whose settings instances cannot be read rightly.
func Unfit(setting, value, remedy string) error {
	return &compute.Error{
		Op: "follow instances", Kind: compute.KindInvalid, Field: setting, Value: value, Remedy: remedy,
	}
}

// Code is the error of a broker's answer; nil for none.
func Code(code int16, cause error) error {
	switch code {
	case 0:
		return nil
	case unknownTopicOrPartition, unknownTopicID:
		return wire.ErrNoTopic
	case topicAuthorization, clusterAuthorization, saslAuthentication:
		return Forbidden(cause)
	}
	return cause
}

func replaced(topic, why string) error {
	return &compute.Error{
		Op: "follow instances", Kind: compute.KindConflict, Field: "topic", Value: topic,
		Message: fmt.Sprintf("is not the log any more that was followed: %s", why),
		Remedy:  "start again with a new follower and an empty table",
	}
}

func lostRecords(topic string) error { return replaced(topic, "it lost records that had been read") }

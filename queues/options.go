// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/plan"
	"github.com/berth-project/berth/queues/ring"
	"github.com/berth-project/berth/queues/save"
)

// Leader tells whether this manager is the active one.
type Leader interface {
	// Elected tells changes: true, now it is; false, it no longer is. true again
	// says that it lost the election in between.
	Elected() <-chan bool
}

// View brings what Catalog, Queues, Hosts and Instances take up to now.
type View interface {
	// Sync returns when everything that was acknowledged to anybody before the
	// call has been handed over.
	Sync(ctx context.Context) error
	// SyncLists does so for all but Instances, of which a partition may be without a leader.
	SyncLists(ctx context.Context) error
}

// Log takes records for Kafka.
type Log interface {
	// Send returns when all records are acknowledged, or with the first error;
	// with an error it is not known which of them were written.
	Send(ctx context.Context, recs ...wire.Record) error
}

// Topics are those of the queues. An error leaves open what was done.
type Topics interface {
	// QueueTopics lists every topic of a queue that exists.
	QueueTopics(ctx context.Context) (map[compute.QueueName]compute.TopicID, error)
	// MakeQueueTopics makes the topics that are missing.
	MakeQueueTopics(ctx context.Context, queues []compute.QueueName) error
	// DeleteQueueTopic deletes the topic if it still has this id. One that is
	// gone, or was made anew, is no error.
	DeleteQueueTopic(ctx context.Context, queue compute.QueueName, id compute.TopicID) error
}

// HostTopics are the command streams of hosts.
type HostTopics interface {
	// MakeHostTopic makes a host's stream if it is missing.
	MakeHostTopic(ctx context.Context, host compute.HostID) error
}

// Streams are the command streams of hosts that are there, for those that nobody
// needs any more. An error leaves open what was done.
type Streams interface {
	// HostTopics lists every stream that exists.
	HostTopics(ctx context.Context) (map[compute.HostID]compute.TopicID, error)
	// QuietHosts says to which of these nothing was said since a time.
	QuietHosts(ctx context.Context, hosts []compute.HostID, since time.Time) ([]compute.HostID, error)
	// DeleteHostTopic deletes the stream if it still has this id. One that is
	// gone, or was made anew, is no error.
	DeleteHostTopic(ctx context.Context, host compute.HostID, id compute.TopicID) error
}

// Shares is the share state of queues.
type Shares interface {
	// InitShares makes the share state of these queues, from the beginning of
	// their topics. It is called once for each incarnation of a topic, unless
	// the error leaves open what was done.
	InitShares(ctx context.Context, group string, queues []compute.QueueName) error
	// Progress asks how far queues are; the answers are in the order of queues.
	Progress(ctx context.Context, queues []wire.QueueRef) ([]Progress, error)
	// DeleteBelow removes the records of queues below these offsets. A queue
	// that is gone is no error.
	DeleteBelow(ctx context.Context, below map[compute.QueueName]int64) error
}

// Progress is how far a share group is with one queue.
type Progress struct {
	TopicID  compute.TopicID // the incarnation this is about
	Start    int64           // share start offset: everything below is done; -1: not initialised
	Written  int64           // the share start offset as it is written down: only what is below it may be removed
	LogStart int64           // the oldest offset that still exists
	Depth    int64           // records that are not done
	Err      error           // why nothing is known of it; then the rest means nothing
}

// Far is where the manager works: topics and share state.
type Far struct {
	Topics  Topics
	Hosts   HostTopics
	Streams Streams // nil: none is ever removed
	Shares  Shares
}

// Options are what a manager needs of the outside, and its numbers.
type Options struct {
	Topics wire.Topics
	Leader Leader
	View   View
	Log    Log
	Far    Far
	Logger *zap.Logger // nil: none

	Metrics *Metrics         // nil: nobody counts
	Now     func() time.Time // what this process's clock shows; nil: time.Now

	Hosts *hostkey.Verifier // says of which host beacons are; nil: of the one that they name

	Reads compute.Schema // the newest schema of instances it reads, in tests of versions; 0: wire.Schema

	PerGroup   int           // most queues of one share group; default 14,000
	MostQueues int           // flavors that would make more are left out; default 50,000
	Batch      int           // most queues in one request; default 1,000
	Settle     time.Duration // until what another manager sent has arrived or died; default 15 s
	CloseFor   time.Duration // a queue is closed at least so long before it goes; default 1 min
	Debounce   time.Duration // news is collected for so long; default 50 ms
	Resync     time.Duration // everything is looked at this often, news or not; default 1 min
	// a stream of a host without a beacon goes once nothing was said to it for so long; 0: never
	Forgotten   time.Duration
	Sweep       time.Duration // such streams are looked for this often; default 1 h
	Truncate    time.Duration // finished records are removed this often; default 1 min
	StepTimeout time.Duration // for one request to Kafka; default 30 s
	Backoff     time.Duration // after the first failure of a queue, doubled with each; default 500 ms
	MaxBackoff  time.Duration // default 1 min
	ReportAfter int           // failures in a row until a queue's record tells of it; default 8: a minute or more
	Advice      advise.Rules  // zero: advise.RingingRules
	Rings       ring.Rules    // zero: ring.DefaultRules
	Savings     *save.Rules   // nil: save.DefaultRules
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Advice == (advise.Rules{}) {
		o.Advice = advise.RingingRules()
	}
	if o.Rings == (ring.Rules{}) {
		o.Rings = ring.DefaultRules()
	}
	or(&o.PerGroup, 14_000)
	or(&o.MostQueues, 50_000)
	or(&o.Batch, 1000)
	or(&o.ReportAfter, 8)
	or(&o.Settle, 15*time.Second)
	or(&o.CloseFor, time.Minute)
	or(&o.Debounce, 50*time.Millisecond)
	or(&o.Resync, time.Minute)
	or(&o.Sweep, time.Hour)
	or(&o.Truncate, time.Minute)
	or(&o.StepTimeout, 30*time.Second)
	or(&o.Backoff, 500*time.Millisecond)
	or(&o.MaxBackoff, time.Minute)
	return o
}

func or[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

// savings are the rules of savings.
func (o Options) savings() save.Rules {
	if o.Savings == nil {
		return save.DefaultRules()
	}
	return *o.Savings
}

func (o Options) rules() plan.Rules {
	return plan.Rules{PerGroup: o.PerGroup, Group: o.Topics.ShareGroup}
}

package agent

import (
	"context"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Placer says where queues are fetched.
type Placer interface {
	// Place sorts queues by lane. It may ask brokers, and block until ctx ends.
	// Queues that cannot be fetched are left out; the error says why, and what
	// was placed can be fetched whatever it is.
	Place(ctx context.Context, queues []wire.QueueRef) (map[wire.Lane][]wire.QueueRef, error)
}

// Puller takes work from queues.
type Puller interface {
	Placer
	// Open begins one fetch in an idle lane and returns at once; exactly one
	// Pulled follows on Results.
	Open(lane wire.Lane, queues []wire.QueueRef)
	Results() <-chan wire.Pulled
	// Ack says what becomes of a record and returns at once. Whether it arrives
	// is not known, and changes nothing.
	Ack(ref wire.WorkRef, how wire.Ack)
}

// Reporter writes records that must not be lost.
type Reporter interface {
	// Send returns when Kafka has all of them, or the first error; then any of
	// them may be there or not.
	Send(ctx context.Context, recs ...wire.Record) error
}

// Journal is what this host has taken. The agent is its only writer.
type Journal interface {
	Read() (journal.State, error)
	// Write is durable when it returns. After an error the agent ends.
	Write(journal.Change) error
}

// Options are what an agent is made of. Host, Partitions, Journal, Driver,
// Puller and Reporter are required.
type Options struct {
	Host       compute.HostID
	Partitions int32 // of the reports topic
	Topics     wire.Topics
	Journal    Journal // stays the caller's to close, after Run
	Driver     hypervisor.Driver
	Puller     Puller
	Reporter   Reporter
	Random     io.Reader   // makes claim ids; nil: crypto/rand
	Log        *zap.Logger // nil: none
	Slots      int         // builds prepared at once; 0: 4
	Weigher    offer.Weigher
	Timing     Timing // zero fields take the defaults
}

// Timing is how long things take. The zero value of a field is its default.
type Timing struct {
	Claim       time.Duration // a claim is repeated after this; 5 s
	GiveBack    time.Duration // a claim without an answer for this long is given back; 60 s
	Launch      time.Duration // a launch that takes longer is undone; 10 min
	Prepare     time.Duration // a preparation that takes longer is undone; 1 h
	Destroy     time.Duration // one try to destroy; 5 min
	Power       time.Duration // one try to stop, start or reboot; 2 min
	StopGrace   time.Duration // what a guest gets to stop softly; 30 s
	Renew       time.Duration // how often a lock is renewed while preparing; 10 s
	Retry       time.Duration // after a failed report, or a failed call of the hypervisor; 1 s, growing to 30 s
	LeaveAlone  time.Duration // how long a queue is left to others after a release; 2 s
	Poll        time.Duration // how often the hypervisor is asked what is there; 15 s
	Beacon      time.Duration // how often at least; 15 s
	BeaconApart time.Duration // how far apart at least; 5 s
	Quarantine  time.Duration // the first one, doubled each time up to 30 min; 30 s
	Stop        time.Duration // what running work gets to finish when the agent stops; 10 s
}

// Stats count what an agent did since it was made.
type Stats struct {
	Offers   int64 // fetches opened
	Taken    int64 // builds taken
	Released int64 // records given to others
	Claims   int64 // claims sent, repeats included
	Denied   int64
	Launches int64 // launches that succeeded
	Failed   int64 // builds that failed here
	Offering bool  // reconciled, caught up with its stream and allowed to offer
}

// Agent drives one host. It is a service.Part.
type Agent struct {
	opts  Options
	ready chan struct{}
}

// New reads the journal. It starts nothing.
func New(o Options) (*Agent, error) { return nil, nil }

// StartOffset is where the host's stream is to be read from: an offset, or the
// end, for a journal that has not seen the stream yet.
func (a *Agent) StartOffset() (offset int64, fromEnd bool) { return 0, true }

// Commands takes records of the host's stream, in order; end says that it has
// been read to the end it had. Nothing is acted upon before. It never blocks.
func (a *Agent) Commands(recs []wire.Record, end bool) {}

// Queues takes records of the queue list. It never blocks.
func (a *Agent) Queues(recs []wire.Record, end bool) {}

// Advice takes records of the advice. It never blocks.
func (a *Agent) Advice(recs []wire.Record, end bool) {}

// Stats may be called at any time.
func (a *Agent) Stats() Stats { return Stats{} }

// Ready is closed once the agent knows what is on the host and takes what its
// streams bring. It offers only when they have been read to their ends.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run drives the host until ctx ends. Then it offers no more, lets short things
// finish, undoes and releases what it has not claimed, and returns nil; the
// machines stay. It returns an error if the journal cannot be written.
func (a *Agent) Run(ctx context.Context) error { return nil }

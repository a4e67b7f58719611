// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Input is one thing the partition hears.
type Input interface{ input() }

type (
	// Requested is a record of the requests topic. At must be set.
	Requested struct{ Request compute.Request }

	// Reported is a record of the reports topic. It is a sign of life.
	Reported struct{ Report compute.Report }

	// HostHeard is a sign of life of a host: a beacon read after HostsRead. It
	// holds no more of the beacon on purpose: nobody is admitted or placed by
	// what a host says it has free.
	HostHeard struct {
		Host  compute.HostID
		Voice compute.Voice
	}

	// HostsRead says that the hosts topic was read to its end: from now on
	// silence counts, and begins anew. More than one changes nothing.
	HostsRead struct{}

	// QueueStart answers AskStart: everything in the queue before Start is
	// finished with.
	QueueStart struct {
		Queue compute.QueueName
		Start int64
	}

	// QueuesChanged names queues whose entry in View.Queues is new or changed.
	QueuesChanged struct{ Queues []compute.QueueName }

	// GroupsChanged names groups whose entry in View.Groups is new, changed or gone.
	GroupsChanged struct{ Groups []compute.GroupKey }

	// Published says what became of a Publish, or of a Tell of CommandBuild,
	// whose Build was made for this instance and attempt at this time.
	Published struct {
		Instance compute.InstanceID
		Attempt  compute.Attempt
		At       time.Time
		Outcome  Outcome
		Offset   int64 // Delivered only
		Told     bool  // it was a Tell
	}

	// CommandWritten says where in a host's stream a Tell with WantOffset was written.
	CommandWritten struct {
		Host   compute.HostID
		Offset int64
	}

	// CommandUndelivered says that such a Tell was given up.
	CommandUndelivered struct{ Host compute.HostID }

	// Tick fires the timers due at Until or before.
	Tick struct{ Until time.Time }
)

// Outcome is what became of a publication.
type Outcome uint8

// The outcomes.
const (
	Delivered   Outcome = iota // it is in the topic
	TopicGone                  // its topic does not exist (any more)
	Undelivered                // nobody knows; it is published again later
)

func (Requested) input()          {}
func (Reported) input()           {}
func (HostHeard) input()          {}
func (HostsRead) input()          {}
func (QueueStart) input()         {}
func (QueuesChanged) input()      {}
func (GroupsChanged) input()      {}
func (Published) input()          {}
func (CommandWritten) input()     {}
func (CommandUndelivered) input() {}
func (Tick) input()               {}

// Output is what one input led to. What it points to is not changed later, and
// the caller must not change it.
type Output struct {
	// Changed are the new versions of records, in the order they were made.
	Changed []*compute.Instance
	// Was are the states before, of each of Changed; StateNone of a new record.
	Was []compute.State
	// Removed are records that were kept long enough: a tombstone for each.
	Removed []*compute.Instance
	// Effects are to be carried out, in order, once Changed is committed.
	Effects []Effect
	// Rejected is why the input made no sense; nil if it did.
	Rejected *compute.Reason
	// Due is when the next timer of the partition is due; zero if none is.
	Due time.Time
}

// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// Options are what an agent is made of. Host, Partitions, Journal, Driver,
// Puller and Reporter are required.
type Options struct {
	Host       compute.HostID
	Partitions int32 // of the reports topic
	Topics     wire.Topics
	Journal    Journal // stays the caller's to close, after Run
	Driver     hypervisor.Driver
	Puller     fetch.Puller
	Reporter   Reporter
	Random     io.Reader       // makes claim ids; nil: crypto/rand
	Log        *zap.Logger     // nil: none
	Metrics    *Metrics        // nil: nobody counts
	Tracer     *tracing.Tracer // of boots; nil: none is traced here
	// this host's clock, which may be wrong, for what others read and for what they wrote; default time.Now
	Now     func() time.Time
	Slots   int               // builds prepared at once; 0: 4
	Terms   offer.Terms       // how what the driver says there is is offered
	Weigher compute.Weigher   // which hosts look for work more often, this one being as full as it is
	Labels  map[string]string // what its operators call the host by
	Timing  Timing            // zero fields take the defaults
	Keys    *sealed.Keys      // open sealed user data; nil: what has some is left to others
	Heard   func() time.Time  // up to when all that is said to the host was read; zero: never; nil: it is not asked
	Heir    bool              // the machines were another journal's, whose agent may still be there
	Reads   compute.Schema    // the newest schema it reads, in tests of versions; 0: wire.Schema
}

// Timing is how long things take. The zero value of a field is its default.
type Timing struct {
	// how long what nothing waits for may stay out of the journal; 1 s, negative: not at all
	Note        time.Duration
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
	SayAgain    time.Duration // after so long it is said again of a machine that it is there, if not before; 24 h
	Poll        time.Duration // how often the hypervisor is asked what is there; 15 s
	Beacon      time.Duration // how often at least; 15 s
	BeaconApart time.Duration // how far apart at least; 5 s
	Quarantine  time.Duration // the first one, doubled each time up to 30 min; 30 s
	Stop        time.Duration // what running work gets to finish when the agent stops; 10 s
}

// Defaults are the times of the protocol.
func Defaults() Timing {
	return Timing{
		Note: time.Second, Claim: 5 * time.Second, GiveBack: time.Minute, Launch: 10 * time.Minute,
		Prepare: time.Hour,
		Destroy: 5 * time.Minute, Power: 2 * time.Minute, StopGrace: 30 * time.Second, Renew: 10 * time.Second,
		Retry: time.Second, LeaveAlone: 2 * time.Second, Poll: 15 * time.Second, Beacon: 15 * time.Second,
		BeaconApart: 5 * time.Second, Quarantine: 30 * time.Second, Stop: 10 * time.Second, SayAgain: 24 * time.Hour,
	}
}

func (t Timing) withDefaults() Timing {
	d := Defaults()
	return Timing{
		Note: cmp.Or(t.Note, d.Note), Claim: cmp.Or(t.Claim, d.Claim), GiveBack: cmp.Or(t.GiveBack, d.GiveBack),
		Launch:  cmp.Or(t.Launch, d.Launch),
		Prepare: cmp.Or(t.Prepare, d.Prepare), Destroy: cmp.Or(t.Destroy, d.Destroy), Power: cmp.Or(t.Power, d.Power),
		StopGrace: cmp.Or(t.StopGrace, d.StopGrace), Renew: cmp.Or(t.Renew, d.Renew), Retry: cmp.Or(t.Retry, d.Retry),
		LeaveAlone: cmp.Or(t.LeaveAlone, d.LeaveAlone), Poll: cmp.Or(t.Poll, d.Poll),
		Beacon:      cmp.Or(t.Beacon, d.Beacon),
		BeaconApart: cmp.Or(t.BeaconApart, d.BeaconApart), Quarantine: cmp.Or(t.Quarantine, d.Quarantine),
		Stop: cmp.Or(t.Stop, d.Stop), SayAgain: cmp.Or(t.SayAgain, d.SayAgain),
	}
}

func (t Timing) rules() task.Rules {
	return task.Rules{
		Claim: t.Claim, GiveBack: t.GiveBack, Renew: t.Renew, Retry: t.Retry, SayAgain: t.SayAgain,
	}
}

// defaultSlots is how many builds are prepared at once.
const defaultSlots = 4

func (o Options) withDefaults() Options {
	o.Timing = o.Timing.withDefaults()
	o.Slots = cmp.Or(o.Slots, defaultSlots)
	o.Reads = cmp.Or(o.Reads, wire.Schema)
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = o.Log.With(zap.String("host", string(o.Host)))
	return o
}

func (o Options) check() error {
	if err := o.Host.Check(); err != nil {
		return err
	}
	if o.Partitions < 1 {
		return compute.Invalid("partitions", "", "give the number of partitions of the reports topic")
	}
	if o.Slots < 0 {
		return compute.Invalid("slots", "", "give a positive number")
	}
	for _, part := range []struct {
		name string
		is   any
	}{{"journal", o.Journal}, {"driver", o.Driver}, {"puller", o.Puller}, {"reporter", o.Reporter}} {
		if part.is == nil {
			return compute.Invalid(part.name, "nil", "an agent needs one")
		}
	}
	return nil
}

// checkTerms refuses to offer what the driver cannot give to machines.
func (o Options) checkTerms() error {
	switch can := o.Driver.Capabilities(); {
	case len(o.Terms.Devices) > 0 && !can.Devices:
		return compute.Invalid(
			"devices",
			string(o.Terms.Devices[0].Class),
			fmt.Sprintf(
				"driver %s gives no PCI devices to machines here (%s): take them out, or use another",
				can.Driver, can.Detail,
			),
		)
	case o.Terms.OneNode && !can.Nodes:
		return compute.Invalid(
			"numa", "true",
			fmt.Sprintf("driver %s cannot keep a machine on a NUMA node: set it to false, or use another", can.Driver),
		)
	}
	return o.Terms.Check()
}

// home is a driver's name, with where it keeps its machines.
func home(can hypervisor.Capabilities) string {
	return strings.TrimSpace(can.Driver + " " + can.Home)
}

// checkHome refuses a driver that does not see the machines of the journal: for all
// it knows, they would be gone.
func (o Options) checkHome(begin journal.State) error {
	was, is := begin.Host.Driver, home(o.Driver.Capabilities())
	if was == "" || was == is || len(begin.Entries) == 0 {
		return nil
	}
	return &compute.Error{
		Op: "agent", Kind: compute.KindInvalid, Field: "driver", Value: is,
		Message: fmt.Sprintf(
			"does not see this host's machines: its journal has %d made by %q",
			len(begin.Entries), was,
		),
		Remedy: "set the old driver and its folder again, and delete what the host has before you change them",
	}
}

// Reporter writes records that must not be lost.
type Reporter interface {
	// Send returns when each is in Kafka or has failed, with the first error; then any of them may be there or not.
	Send(ctx context.Context, recs ...wire.Record) error
	// SendEach calls told once for each record, by its index, as soon as it is acknowledged or has failed with an error
	// of its own; after one it may be there or not. A partition that is late holds up no other. told is not called by
	// two goroutines at once. SendEach returns when all are told, soon after ctx ends.
	SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error))
}

// Journal is what this host has taken. The agent is its only writer.
type Journal interface {
	Read() (journal.State, error)
	// Write is durable when it returns. After an error the agent ends.
	Write(journal.Change) error
	// Room says why there is no room for what will be written; nil: there is. It is
	// asked while Write may be under way.
	Room() error
}

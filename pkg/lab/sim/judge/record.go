// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// Recording is all that was seen from outside while a schedule was played.
type Recording struct {
	Schedule schedule.Schedule
	Start    time.Time
	Calm     time.Time // everything healed
	Back     time.Time // two of three brokers came back; zero: they never went
	Up       time.Time // when something was last down: an operator may hold a host back for longer
	Placed   time.Time // all that has room runs, and closed queues may still be there
	Settled  time.Time // nothing was left to be done; zero: that never came
	Empty    time.Time // all was deleted, and nothing was left; zero: that never came

	Log        []Written    // in the order of each partition
	Claims     []Claimed    // what hosts asked for
	Declined   []Claimed    // what hosts cannot do of what only they may
	Builds     []Published  // what was put into queues, of a set that is offered whole the work of each
	Wholes     []Published  // sets that were put there whole
	Told       []Told       // what was offered to one host
	Robbed     []Published  // what a rogue took out of them
	Owners     []Owned      // conductors' requests for a partition's producer epoch, by which they took it over
	Machines   []fake.Event // what hypervisors did
	Launches   []Launch     // and by which claim
	Given      []Given      // what hypervisors were asked to prepare
	Broke      []Broke      // calls of theirs that failed
	Works      []Worked     // what hypervisors were busy with
	Rings      []Rung       // what hosts were rung for
	Denials    []Denied     // claims that were denied
	Effects    []Effect     // what else conductors told hosts, and put into queues
	Leaderless []Leaderless // partitions without a leader
	Clones     []Cloned     // second agents of a host's name
	Renames    []Renamed    // times in which hosts had another name
	Agents     []Agent      // lives of agents, as they ended
	Offers     []Offered    // whether hosts offer
	Words      []Word       // declarations that hosts are dead that have power
	Asks       []Ask        // what clients and operators asked for, and were told
	Lies       []Lie        // what a stranger says that hosts have said
	Buried     []Buried     // hosts without power that were declared dead
	Forged     []Forged     // what a stranger has asked for, by requests that no conductor may take
	Showed     []Showed     // what nodes showed of hosts that may be silent
	Quotas     []QuotaSeen  // as the API says when settled
	Reread     []Reread     // the log, as another reader has it
	Notes      []Note       // what went wrong, and whatever explains
	Wrong      []Violation  // found while it went on

	Fetches map[compute.HostID][]time.Time // when each host asked a broker for work

	Upgraded map[compute.HostID]bool // hosts that were to be, and are

	RereadAll bool // that reader came to the end of each partition

	Refused map[Place]compute.ReasonCode // requests that conductors have rejected

	Later int            // records of instances in a later schema than this version's
	Came  map[string]int // faults that took place, by kind: a trap may never spring

	Beacons map[compute.HostID]compute.Beacon                       // the last of each host
	Closed  map[compute.QueueName]time.Time                         // queues that are closed, and not gone; since when
	Gone    map[compute.QueueName]bool                              // queues that were there
	Worst   map[compute.HostID]compute.Resources                    // the most a host ever held
	Left    map[compute.HostID]map[compute.InstanceID]journal.Entry // in the journals at the end
	// the last thing that had to be waited for until all was settled
	Awaited string
	Stuck   []string // what was still to be done when patience ended

	mu  sync.Mutex
	now map[compute.InstanceID]compute.Instance
}

// Written is one committed record of instances.
type Written struct {
	Partition int32
	Offset    int64
	Seen      time.Time
	Instance  compute.Instance
	Removed   bool // a tombstone
}

// Launch is one call that may let a machine run.
type Launch struct {
	At       time.Time
	Host     compute.HostID
	Instance compute.InstanceID
	Attempt  compute.Attempt
	Claim    compute.ClaimID
}

// Ask is one thing that was asked for.
type Ask struct {
	schedule.Load
	ID       compute.InstanceID // boot: chosen by the client, or told by the API; delete, power: of the instance
	Began    time.Time
	Answered time.Time // zero: never
	OK       bool      // it cannot be lost any more
	Err      string
	Why      *compute.Error // the last error, if it is one of Berth's
	Tries    int
}

// QuotaSeen is what the API says of a project.
type QuotaSeen struct {
	Project compute.Project
	Used    compute.Resources
	Before  compute.Resources // what the log said when it was asked
	After   compute.Resources // and when it had answered
}

// Note is one line of the story.
type Note struct {
	At   time.Time
	Who  string
	What string
}

// Violation is something that must never be.
type Violation struct {
	Rule     string
	Instance compute.InstanceID // empty: it is about none
	At       time.Time
	What     string
}

func (v Violation) String() string { return v.Rule + ": " + v.What }

func NewRecording(s schedule.Schedule) *Recording {
	return &Recording{
		Schedule: s, Start: time.Now(), now: map[compute.InstanceID]compute.Instance{},
		Beacons: map[compute.HostID]compute.Beacon{}, Closed: map[compute.QueueName]time.Time{},
		Gone:  map[compute.QueueName]bool{},
		Worst: map[compute.HostID]compute.Resources{},
		Left:  map[compute.HostID]map[compute.InstanceID]journal.Entry{}, Came: map[string]int{},
		Fetches: map[compute.HostID][]time.Time{},
		Refused: map[Place]compute.ReasonCode{}, Upgraded: map[compute.HostID]bool{},
	}
}

// CountFault counts a fault that takes place.
func (r *Recording) CountFault(f schedule.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Came[schedule.KindOf(f)]++
}

func (r *Recording) AddNote(who, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Notes = append(r.Notes, Note{time.Now(), who, what})
}

func (r *Recording) AddViolation(rule string, id compute.InstanceID, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Wrong = append(r.Wrong, Violation{rule, id, time.Now(), fmt.Sprintf(format, args...)})
}

func (r *Recording) AddLaunch(l Launch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Launches = append(r.Launches, l)
}

// AddAsk keeps a place for something that is asked.
func (r *Recording) AddAsk(a Ask) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Asks = append(r.Asks, a)
	return len(r.Asks) - 1
}

func (r *Recording) ChangeAsk(i int, change func(*Ask)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.Asks[i])
}

// AskAt is what became of something that was asked.
func (r *Recording) AskAt(i int) Ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Asks[i]
}

// ReadInstance hears what was committed.
func (r *Recording) ReadInstance(rec wire.Record) {
	w := Written{Partition: rec.Partition, Offset: rec.Offset, Seen: time.Now()}
	var err error
	if rec.Value == nil {
		w.Removed = true
		_, w.Instance.ID, err = wire.ParseInstanceKey(rec.Key)
	} else {
		w.Instance, err = wire.DecodeInstance(rec.ReadUpTo(schedule.LaterSchema))
		r.writtenIn(rec)
	}
	if err != nil {
		r.AddViolation("log", "", "instances-%d@%d cannot be read: %v", rec.Partition, rec.Offset, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Log = append(r.Log, w)
	if w.Removed {
		delete(r.now, w.Instance.ID)
	} else {
		r.now[w.Instance.ID] = w.Instance
	}
}

func (r *Recording) ReadBeacon(rec wire.Record) {
	if rec.Value == nil {
		return // it was forgotten; if it comes back, it says so
	}
	b, err := wire.DecodeBeacon(rec)
	if err != nil {
		r.AddViolation("log", "", "a beacon cannot be read: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Beacons[b.Host] = b; b.Leaves {
		return // an agent that has ended offers nothing, and nobody wonders
	}
	r.Offers = append(r.Offers, Offered{time.Now(), b.Host, b.State, b.Asks, rec.Time})
}

// ReadQueue keeps which queues are closed, and which are gone.
func (r *Recording) ReadQueue(rec wire.Record) {
	name, closed := compute.QueueName(rec.Key), false
	if rec.Value != nil {
		q, err := wire.DecodeQueue(rec)
		if err != nil {
			r.AddViolation("log", "", "a queue cannot be read: %v", err)
			return
		}
		closed = q.State == compute.QueueClosed && q.TopicID != ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Gone[name] = rec.Value == nil
	switch {
	case !closed:
		delete(r.Closed, name)
	case r.Closed[name].IsZero():
		r.Closed[name] = time.Now()
	}
}

// EndedQueues is since when each queue is closed that is not gone, and which are.
func (r *Recording) EndedQueues() (closed map[compute.QueueName]time.Time, gone map[compute.QueueName]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.Closed), maps.Clone(r.Gone)
}

// Instances is the newest of every record.
func (r *Recording) Instances() map[compute.InstanceID]compute.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.now)
}

// InstanceNamed finds an instance by the name it was booted with.
func (r *Recording) InstanceNamed(name string) (compute.Instance, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.now {
		if i.Boot.Name == name {
			return i, true
		}
	}
	return compute.Instance{}, false
}

// IDOf is the id of a boot by its name, as far as the client knows it.
func (r *Recording) IDOf(name string) compute.InstanceID {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.Asks {
		if a.Op == schedule.LoadBoot && a.Name == name {
			return a.ID
		}
	}
	return ""
}

// writtenIn counts what is written in the later schema.
func (r *Recording) writtenIn(rec wire.Record) {
	if !wire.IsLater(rec) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Later++
}

const (
	// Patience is how long, when nothing goes wrong any more, everything may take
	// to end: longer than any back-off and time-out that may still be running.
	Patience = 20 * time.Minute
	// soon is how long whatever has room may wait then: a host that nobody wakes
	// looks within a minute, and what was lost on its way is missed after half of
	// one (I6).
	soon = 90 * time.Second
)

// LastBeacon is what a host said last.
func (r *Recording) LastBeacon(h compute.HostID) compute.Beacon {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Beacons[h]
}

// IsOffering says whether a host said last that it offers.
func (r *Recording) IsOffering(h compute.HostID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.Beacons[h]
	return ok && b.State == compute.HostEnabled
}

// CountFelt counts something of the world that makes itself felt.
func (r *Recording) CountFelt(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Came[kind]++
}

// AddRobbed sees a rogue get what was in a queue.
func (r *Recording) AddRobbed(rec wire.Record) {
	b, err := wire.DecodeBuild(rec.ReadUpTo(schedule.LaterSchema))
	if err != nil {
		r.AddViolation("log", "", "a record of a queue cannot be read: %v", err)
		return
	}
	r.AddNote("rogue", fmt.Sprintf("takes attempt %d of %s out of %s", b.Attempt, b.Name, b.Queue))
	r.addBuild(&r.Robbed, b)
}

// robbedOf is how often an attempt was taken out of its queue by a rogue before.
func (r *Recording) robbedOf(k work, before time.Time) (n int) {
	for _, b := range r.Robbed {
		if k == (work{b.Instance, b.Attempt}) && b.Seen.Before(before) {
			n++
		}
	}
	return n
}

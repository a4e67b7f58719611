// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/conductor/quota"
	"github.com/berth-project/berth/pkg/compute"
)

// State is one partition: the newest version of every record, and what is
// worked out from them. Memory is O(records); every step is O(log records),
// news about a host or a queue O(what it is about).
type State struct {
	opts          Options
	instances     map[compute.InstanceID]*entry
	hosts         map[compute.HostID]*host
	fences        fences // begun anew with every load
	queues        map[compute.QueueName]*queue
	groups        map[compute.GroupKey]*group
	sets          map[compute.InstanceID]*set
	reservations  map[compute.ReservationKey]*reservation
	left          map[compute.InstanceID]*entry      // by their takers the placeholders that hosts are to give up
	rooms         []*reservation                     // something happened in them in this step
	roomsLoaded   bool                               // nothing has happened since they were
	keeping       map[compute.HostID]map[*entry]bool // by host what it has claimed of sets that wait for others
	touched       []*group                           // something happened in them in this step
	wholes        []*set                             // they are to be offered whole at the end of this step
	shares        map[shareKey]*share
	touchedShares []*share
	unsorted      bool // some of them do not know yet what of their work is in the queue
	unreleased    bool // work was loaded that awaits a queue which is listed: its owner before may not have published it
	held          Held
	usage         *quota.Index
	endings       map[compute.Project]*endings
	overLimit     map[compute.Project]bool // have more that have ended than are kept
	timers        heap[*timer]
	made          uint64 // timers made so far
	hostsRead     bool
	lastNow       time.Time      // of the last step
	loadedAt      time.Time      // when the last record was loaded; zero: none was
	shared        compute.Shared // what records have in common
}

// New is a partition without records.
func New(opts Options) *State {
	return &State{
		opts:      opts,
		instances: map[compute.InstanceID]*entry{},
		hosts:     map[compute.HostID]*host{},
		fences:    newFences(opts.MaxFences),
		queues:    map[compute.QueueName]*queue{},
		groups:    map[compute.GroupKey]*group{},
		sets:      map[compute.InstanceID]*set{},
		keeping:   map[compute.HostID]map[*entry]bool{},

		reservations: map[compute.ReservationKey]*reservation{},
		left:         map[compute.InstanceID]*entry{},

		shares:    map[shareKey]*share{},
		usage:     quota.NewIndex(),
		endings:   map[compute.Project]*endings{},
		overLimit: map[compute.Project]bool{},
		timers:    heap[*timer]{less: sooner, index: func(t *timer) *int32 { return &t.index }},
	}
}

// entry is one record and what goes on around it.
type entry struct {
	inst *compute.Instance // replaced, never changed
	timer
	in          *inGroup // nil: it is a member of no group
	endingIndex int32    // in endings
	// Begun anew with every load:
	loaded       bool // queued: since it was loaded it has had no other state or attempt
	confirmAsked bool // its host came back from silence and was asked to confirm
	// the fence or forget that its higher epoch kept it from, until it is known whether there can be such an epoch
	sparedFrom compute.RequestOp
	pub        *publication // queued; nil in any other state
	toldAt     time.Time    // when its host was last told what it should do
}

// host is a host that has instances here, or that pinned work waits for.
type host struct {
	id        compute.HostID
	timer     // of its silence
	instances map[*entry]bool
	journal   compute.JournalID        // as last heard; empty: not heard yet
	voices    map[compute.Voice]spoken // when each process that speaks for it was heard
	twins     map[compute.Voice]bool   // processes that spoke for it at the same time
	together  map[together]time.Time   // when two of those with different journals last spoke at one time
	// when what is here is asked about again, for its last answer did not count; see countsFrom
	askAgainAt map[*entry]time.Time
	askEndAt   time.Time // when the end of its stream is asked for again; zero: it is not
	since      time.Time // from when on voices are complete; zero: they are
	heard      time.Time // the last sign of life, or when it began to matter here
	silent     bool
	restarted  bool // its agent is another process with a journal that was heard before, and was not told anew yet
}

// Load puts one record in, as read from the log. It must be there only once, and
// may share with others what compute.Shared does.
func (s *State) Load(inst *compute.Instance, view View, now time.Time) {
	if inst.State.Ended() {
		inst.Boot.DropUserData() // in records of before
	}
	s.lastNow, s.loadedAt = now, now
	s.ensureGroup(inst, view)
	e := s.newEntry()
	e.toldAt = now
	s.replace(e, inst, now)
	if h := s.hosts[hostOf(inst)]; h != nil {
		h.since = now
	}
	e.loaded = inst.State == compute.StateQueued
	if e.loaded && inst.PublishAt.IsZero() {
		e.pub.state, e.pub.at = unknown, now
		switch {
		case isCarried(inst):
			e.pub.state = carried
		case taking(inst):
			e.pub.told = true // perhaps
		case !pinned(inst) && inst.Whole() == "" && (!view.listed(inst.Queue) || view.listedSince(inst)):
			s.awaitQueue(e)
			if view.listed(inst.Queue) {
				s.unreleased = true
				s.loadShare(e)
			}
		default:
			e.pub.told = pinned(inst) // perhaps
			s.setOut(e, true)
			s.loadShare(e)
			if g := e.group(); g != nil {
				g.loaded[e] = true
			}
		}
	}
	s.reschedule(e)
	s.roomsLoaded = s.roomsLoaded || inst.HoldsRoom()
	if t := s.takerOf(inst); t != nil {
		s.reschedule(t) // it begins with that
	}
}

// Loaded answers what follows from records that were loaded by themselves. It is called once all of them are.
func (s *State) Loaded(view View, now time.Time) Output {
	st := &step{State: s, view: view, now: now}
	st.releaseLoaded()
	st.offerLoaded()
	return st.done()
}

// Resend answers what follows from a loaded record, for one whose effects the
// previous owner may not have carried out. An unknown id answers nothing.
func (s *State) Resend(id compute.InstanceID, view View, now time.Time) Output {
	st := &step{State: s, view: view, now: now}
	st.sortAllLoaded()
	e := s.instances[id]
	switch {
	case e == nil:
	case isCarried(e.inst):
		st.resendWhole(e)
	case e.pub != nil && e.pub.state == pending: // it has been published since it was loaded
	default:
		st.emitEffects(e)
		st.repeatReleased(e)
	}
	return st.done()
}

// Instance is the newest version of a record; nil if there is none.
func (s *State) Instance(id compute.InstanceID) *compute.Instance {
	if e := s.instances[id]; e != nil {
		return e.inst
	}
	return nil
}

// Used is what a project uses of its quota. The caller must not change it.
func (s *State) Used(p compute.Project) compute.Resources { return s.usage.Used(p) }

// Held is how much of what waits is kept in the conductor, and in no queue.
type Held struct{ ByGroup, ByShare int }

// Held counts it.
func (s *State) Held() Held { return s.held }

// Len is how many records there are.
func (s *State) Len() int { return len(s.instances) }

// NextDue is when the next timer is due; zero if there is none.
func (s *State) NextDue() time.Time {
	if len(s.timers.items) == 0 {
		return time.Time{}
	}
	return s.timers.top().due
}

func (s *State) newEntry() *entry {
	e := &entry{}
	e.timer = s.newTimer(e)
	return e
}

// replace makes next the record of e and keeps every index true: usage, which
// instance is on which host, what is published where. Nil for next forgets it.
func (s *State) replace(e *entry, next *compute.Instance, now time.Time) {
	old := e.inst
	if old != nil && old.State.Ended() {
		s.removeEnded(e)
	}
	if old != nil && (next == nil || next.State != old.State || next.Attempt != old.Attempt) {
		s.dropKept(e, old)
		s.unpublish(e)
		e.pub = nil
		e.loaded, e.confirmAsked = false, false // they were about what is over
	}
	if old != nil && next != nil && next.Attempt != old.Attempt {
		e.sparedFrom = compute.OpNone
		if e.in != nil {
			e.in.gaveUp, e.in.behind = false, time.Time{}
		}
	}
	s.usage.Replace(old, next)
	e.inst = next
	if next != nil {
		s.instances[next.ID] = e
		if next.State == compute.StateQueued && e.pub == nil {
			e.pub = &publication{}
		}
		s.joinHost(e, now)
		if next.State.Ended() {
			s.addEnded(e)
		}
	}
	s.regroup(e)
	s.joinSet(e, old, now)
	s.joinReservation(e, old)
	if old == nil {
		return
	}
	if next == nil {
		delete(s.instances, old.ID)
		s.schedule(&e.timer, time.Time{})
	}
	if next == nil || hostOf(next) != hostOf(old) {
		s.leaveHost(hostOf(old), e)
	}
}

// hostOf is the host an instance concerns: that which has it, or that which
// pinned work waits for; empty if none.
func hostOf(inst *compute.Instance) compute.HostID {
	switch {
	case inst.State.OnHost():
		return inst.Host
	case inst.State == compute.StateQueued:
		return inst.Boot.Host
	}
	return ""
}

func (s *State) joinHost(e *entry, now time.Time) {
	id := hostOf(e.inst)
	if id == "" {
		return
	}
	h := s.hosts[id]
	if h == nil {
		h = &host{
			id: id, instances: map[*entry]bool{}, heard: now, voices: map[compute.Voice]spoken{},
		}
		h.timer = s.newTimer(h)
		s.hosts[id] = h
		s.scheduleSilence(h)
	}
	h.instances[e] = true
}

// leaveHost keeps no host that has nothing here: when something comes to it again,
// that is a sign of life of its own.
func (s *State) leaveHost(id compute.HostID, e *entry) {
	h := s.hosts[id]
	if h == nil {
		return
	}
	delete(h.askAgainAt, e)
	if delete(h.instances, e); len(h.instances) == 0 {
		s.schedule(&h.timer, time.Time{})
		delete(s.hosts, id)
	}
}

// sorted lists entries in the order of their ids, so that the same input
// always has the same output.
func sorted(entries map[*entry]bool) []*entry {
	return slices.SortedFunc(maps.Keys(entries), func(a, b *entry) int { return cmp.Compare(a.inst.ID, b.inst.ID) })
}

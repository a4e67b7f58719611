// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// step is one call of Step: the state, what it may look at, and what comes out.
type step struct {
	*State
	view View
	now  time.Time // with the monotonic clock: silence is measured by it
	// the host whose instances are being lost, one after the other: members that are still on it let no others go there
	losing compute.HostID
	beside map[inValue]uint32 // boots of the set that is being admitted; nil: there is none
	out    Output
}

// Step hears one input. now never goes back; records are stamped with it.
func (s *State) Step(in Input, view View, now time.Time) Output {
	s.lastNow = now
	st := &step{State: s, view: view, now: now}
	st.sortAllLoaded()
	st.touchLoaded(in)
	switch in := in.(type) {
	case Requested:
		st.request(in.Request)
	case Reported:
		st.report(in.Report)
	case HostHeard:
		st.hostHeard(in.Host, in.Voice)
	case HostsRead:
		st.startSilence()
	case QueueStart:
		st.startMoved(in.Queue, in.Start)
	case GroupsChanged:
		st.groupsChanged(in.Groups)
	case QueuesChanged:
		st.releaseListed(in.Queues)
	case Published:
		st.published(in)
	case CommandWritten:
		st.streamEnd(in)
	case CommandUndelivered:
		st.askStreamEndLater(in.Host)
	case Tick:
		st.tick(in.Until)
	}
	return st.done()
}

func (s *step) done() Output {
	for len(s.touched)+len(s.touchedShares)+len(s.wholes)+len(s.rooms) > 0 {
		s.giveRooms()
		s.releaseGroups()
		s.releaseShares()
		s.offerWholes()
	}
	s.trim()
	s.out.Due = s.NextDue()
	return s.out
}

// at is the time as records carry it.
func (s *step) at() time.Time { return s.now.Round(0).UTC() }

// find is the entry of a project's instance; nil if there is none, or it is
// another project's.
func (s *step) find(p compute.Project, id compute.InstanceID) *entry {
	if e := s.instances[id]; e != nil && e.inst.Project == p {
		return e
	}
	return nil
}

// create makes the first version of a record.
func (s *step) create(inst *compute.Instance) {
	inst.Version, inst.ChangedAt = 1, s.at()
	s.write(s.newEntry(), inst)
}

// change makes the next version of a record. edit gets a copy that shares its
// slices and maps with the version before: it replaces them, never changes them.
func (s *step) change(e *entry, edit func(*compute.Instance)) {
	next := *e.inst
	next.Version++
	next.ChangedAt = s.at()
	edit(&next)
	s.write(e, &next)
}

// note makes the next version of a record from which nothing follows for any host: when it changed stays as it is. For
// edit it is as for change.
func (s *step) note(e *entry, edit func(*compute.Instance)) {
	next := *e.inst
	next.Version++
	edit(&next)
	s.record(e, &next)
}

func (s *step) write(e *entry, next *compute.Instance) {
	s.record(e, next)
	s.emitEffects(e)
}

// record makes next the record, and says nothing to anybody.
func (s *step) record(e *entry, next *compute.Instance) {
	was, old := compute.StateNone, e.inst
	if old != nil {
		was = old.State
	}
	s.out.Was = append(s.out.Was, was)
	s.noteKept(next)
	s.shared.Instance(next)
	set, kept := s.setOf(e.inst), e.kept()
	s.replace(e, next, s.now)
	s.out.Changed = append(s.out.Changed, next)
	if kept != nil && e.kept() == nil && !isHolder(next, kept.Report) {
		s.denyKept(e, kept, set)
	}
	if set != nil && next.State.Ended() {
		s.memberEnded(set, e)
	}
	s.reservationChanged(e, old)
}

// emitEffects emits what follows from the record as it is, and sets its timer. Work
// for a queue that is not listed awaits that.
func (s *step) emitEffects(e *entry) {
	if !s.postponeWhole(e) {
		s.offer(e)
	}
}

// offer does that for one that is offered by itself, or not at all.
func (s *step) offer(e *entry) {
	for _, effect := range Effects(e.inst, s.at()) {
		if e.inst.State == compute.StateQueued {
			if e.kept() != nil {
				continue // a host has it prepared
			}
			if s.setOut(e, false); !s.mayGo(e) {
				s.hold(e)
				continue
			}
			if !s.reservationLets(e) {
				s.holdForReservation(e)
				continue
			}
			effect = s.asTaker(e, s.asMember(e, effect))
		}
		switch effect := effect.(type) {
		case Publish:
			if !s.view.listed(effect.Queue) {
				s.awaitQueue(e)
				continue
			}
			if s.unpublish(e); !s.inWindow(e) {
				s.holdBack(e)
				continue
			}
			s.enterLine(e)
			e.pub.state, e.pub.at, e.pub.topic = pending, s.at(), s.view.Queues[effect.Queue].TopicID
			s.setOut(e, true)
		case Tell:
			if effect.Command.Op == compute.CommandBuild {
				s.unpublish(e)
				e.pub.state, e.pub.at, e.pub.told = unknown, s.at(), true
				s.setOut(e, true)
			}
			e.toldAt = s.now
		}
		s.emit(effect)
	}
	s.reschedule(e)
}

// repeatCommands says again what the record stands for, and asks again what is still
// to be confirmed.
func (s *step) repeatCommands(e *entry) {
	s.emitEffects(e)
	if e.confirmAsked && !e.inst.Confirm {
		s.emit(tell(e.inst, compute.CommandConfirm, s.at()))
		e.toldAt = s.now
		s.reschedule(e)
	}
}

func (s *step) emit(effect Effect) { s.out.Effects = append(s.out.Effects, effect) }

// reject answers an input that made no sense.
func (s *step) reject(detail string) { s.rejectFor(compute.Malformed, detail) }

func (s *step) rejectFor(code compute.ReasonCode, detail string) {
	s.out.Rejected = &compute.Reason{Code: code, Detail: detail}
}

// end is the one way into error: only once no host may hold the machine. The
// user's data is not kept: nobody will need it again.
func (s *step) end(e *entry, reason *compute.Reason) { s.endWith(e, reason, e.inst.Failures) }

func (s *step) endWith(e *entry, reason *compute.Reason, failures []compute.Failure) {
	s.change(e, func(inst *compute.Instance) {
		inst.State, inst.Reason, inst.Failures, inst.EndedAt = compute.StateError, reason, failures, s.at()
		inst.Command, inst.Confirm, inst.PublishAt = nil, false, time.Time{}
		inst.EndNotice(s.at())
		inst.Boot.DropUserData()
		offerIn(inst, "")
		clearPower(inst)
	})
}

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// startSilence begins to count: before the hosts topic was read to its end,
// that nothing was heard means nothing.
func (s *step) startSilence() {
	if s.hostsRead {
		return
	}
	s.hostsRead = true
	for _, h := range s.hosts {
		h.heard = s.now
		if !h.since.IsZero() {
			h.since = s.now
		}
		s.scheduleSilence(h)
	}
}

// scheduleSilence sets the timer of a host's silence.
func (s *State) scheduleSilence(h *host) {
	if s.hostsRead && !h.silent {
		s.schedule(&h.timer, h.heard.Add(s.opts.SilentAfter))
	}
}

// fire finds out whether the host was heard since the timer was set.
func (h *host) fire(s *step, until time.Time) {
	if s.hosts[h.id] != h {
		return // its last instance has ended in this very tick
	}
	if h.silent = !h.heard.Add(s.opts.SilentAfter).After(until); h.silent {
		s.touchHeld(h)
	}
	s.scheduleSilence(h)
}

// hostHeard takes note of a sign of life. Nothing here moves an instance: a host
// that comes back is told again what it should do and asked what it has.
func (s *step) hostHeard(id compute.HostID, by compute.Voice) {
	s.forgetKept(id, by.Journal)
	h := s.hosts[id]
	if h == nil {
		return
	}
	forgot := by.Journal != "" && h.journal != "" && by.Journal != h.journal && !s.heardLately(h, by.Journal)
	back := s.markAlive(h, by)
	s.noteTwins(h, by)
	switch {
	case forgot:
		s.confirmAll(h, true)
	case back:
		s.afterSilence(h)
	}
	if h.restarted || forgot || back {
		s.offerAnew(h, forgot || back)
	}
}

// offerAnew tells a host again what its agent keeps in memory alone, if that was started again: what was offered to
// this host and no other. Power commands that came before it had read its stream to the end it has passed over. A host
// that was silent was not offered such work again meanwhile, and members of groups wait there only for so long. told
// says that all that is about the host's own instances was told just now.
func (s *step) offerAnew(h *host, told bool) {
	h.restarted = false
	groups := map[*group]bool{}
	for _, e := range sorted(h.instances) {
		offered := e.inst.State == compute.StateQueued && e.pub.told
		if !told && (offered || running(e.inst) && e.inst.Command != nil) {
			s.emitEffects(e)
		}
		s.offerTaker(e)
		if g := e.group(); g != nil && g.place == string(h.id) && !groups[g] {
			groups[g] = true
			s.offerMembers(g)
		}
	}
}

// offerLoaded offers what waits for one host alone, once it is loaded. The conductor before may have ended before it
// did so: that its time has come is in no record. And what it offered is gone if the agent was started again while
// nobody listened.
func (s *step) offerLoaded() {
	for _, id := range slices.Sorted(maps.Keys(s.hosts)) {
		for _, e := range sorted(s.hosts[id].instances) {
			if pinned(e.inst) && e.inst.State == compute.StateQueued && e.pub.told {
				s.offerPinned(e)
			}
			s.offerTaker(e)
		}
	}
}

// offerPinned offers again what waits for one host alone. Of a group those go first that have waited longest.
func (s *step) offerPinned(e *entry) {
	if e.group() == nil {
		s.emitEffects(e)
		return
	}
	s.hold(e)
	s.touch(e.group())
	s.reschedule(e)
}

// offerTaker offers again what has taken a placeholder, and was perhaps offered before.
func (s *step) offerTaker(p *entry) {
	if t := s.takerOf(p.inst); t != nil && t.inst.State == compute.StateQueued && t.pub.told {
		s.emitEffects(t)
	}
}

// reportHeard takes note of a report. Which journal the host runs with is said by its
// beacons and by its hello.
func (s *step) reportHeard(r compute.Report) {
	h := s.hosts[r.Host]
	if h == nil {
		return
	}
	back := s.markAlive(h, compute.Voice{})
	if back {
		s.afterSilence(h)
	}
	if s.noteVoice(h, r.Voice()); h.restarted || back {
		s.offerAnew(h, back)
	}
}

// afterSilence has a host that was silent told again what it should do, and asked.
func (s *step) afterSilence(h *host) {
	s.touchHeld(h)
	for _, e := range sorted(h.instances) {
		e.confirmAsked = running(e.inst)
		s.repeatCommands(e)
	}
}

// hello is said by an agent that begins a new journal at the end of its stream:
// it has missed whatever was said before.
func (s *step) hello(id compute.HostID, by compute.Voice) {
	s.forgetKept(id, by.Journal)
	if h := s.hosts[id]; h != nil {
		s.markAlive(h, by)
		s.confirmAll(h, true)
		s.offerAnew(h, true)
	}
}

// markAlive ends a silence; it says whether there was one.
func (s *step) markAlive(h *host, by compute.Voice) (back bool) {
	back = h.silent
	if h.heard, h.silent = s.now, false; back {
		s.scheduleSilence(h)
	}
	if by.Journal != "" {
		h.journal = by.Journal
		s.noteVoice(h, by)
	}
	return back
}

// running says whether the host should have the machine, or be making it.
func running(inst *compute.Instance) bool {
	return inst.State == compute.StateStarting || inst.State == compute.StateActive
}

// confirmAll asks a host about everything it has, mostly one that forgot. That it
// is asked is part of the record, so that it is asked even if this process dies.
func (s *step) confirmAll(h *host, forgot bool) {
	for _, e := range sorted(h.instances) {
		if running(e.inst) && (!e.inst.Confirm || forgot && reboots(e.inst)) {
			s.change(e, func(inst *compute.Instance) {
				if inst.Confirm = true; forgot {
					s.failReboot(inst)
				}
			})
		} else {
			s.repeatCommands(e)
		}
	}
}

func reboots(inst *compute.Instance) bool {
	return inst.Command != nil && inst.Command.Op == compute.OpReboot
}

// failReboot answers a reboot that a host without memory may have done: it is
// done at most once.
func (s *step) failReboot(inst *compute.Instance) {
	if c := inst.Command; reboots(inst) {
		inst.Command = nil
		inst.Answer = &compute.PowerAnswer{
			Op: c.Op, Command: c.Command,
			Failed: compute.RebootUnknown, At: s.at(),
		}
	}
}

// hostDead carries out fence and forget: an operator says that a host is dead for certain. The
// API node has written "fenced" into the host's stream before, so that the host finds it there
// before another host can start what it had. This request may be read much later, when the host
// is back and has acted on "fenced": what it has claimed since, under an epoch that is not
// lower, is not touched.
func (s *step) hostDead(id compute.HostID, op compute.RequestOp, fence compute.FenceEpoch) {
	s.fences.note(id, fence, s.now, func(id compute.HostID) bool { return s.hosts[id] != nil })
	s.loseKeptOf(id, func(k *keptClaim) bool { return !claimedSince(k.Fence, fence) })
	h := s.hosts[id]
	if h == nil {
		return
	}
	var spared *entry
	s.losing = id
	defer func() { s.losing = "" }()
	for _, e := range sorted(h.instances) {
		if !h.instances[e] {
			continue // the end of another one of its set has ended it
		}
		if !claimedSince(e.inst.Fence, fence) {
			s.loseInstance(e, id, op)
		} else if e.inst.Fence > fence {
			spared, e.sparedFrom = e, op
		}
	}
	if spared != nil {
		s.askStreamEnd(spared)
	}
}

// askStreamEndLater asks again, after a pause, what could not be written to the host's stream, if an answer is waited
// for still.
func (s *step) askStreamEndLater(id compute.HostID) {
	h := s.hosts[id]
	if h == nil || h.askEndAt.After(s.now) {
		return
	}
	h.askEndAt = s.now.Add(s.opts.RepeatEvery)
	for _, e := range sorted(h.instances) {
		if e.sparedFrom != compute.OpNone {
			s.reschedule(e) // any of them asks for all
		}
	}
}

// askEndAt is when the end of the stream of an instance's host is asked for again; zero: it is not.
func (s *State) askEndAt(e *entry) time.Time {
	if h := s.hosts[hostOf(e.inst)]; h != nil && e.sparedFrom != compute.OpNone {
		return h.askEndAt
	}
	return time.Time{}
}

// loseInstance loses what a dead host has.
func (s *step) loseInstance(e *entry, id compute.HostID, op compute.RequestOp) {
	if running(e.inst) {
		// Should it come back all the same, this is the word that it must not run it.
		s.emit(tell(e.inst, compute.CommandDelete, s.at()))
	}
	s.loseHost(e, id, op)
}

// claimedSince says whether a fence does not touch what the host has, or has claimed, under
// an epoch: it claimed it after it had destroyed all that it had before. A fence without an epoch
// touches everything.
func claimedSince(by, fence compute.FenceEpoch) bool {
	return fence != 0 && by >= fence
}

// loseHost ends or moves one instance of a dead host.
//
//	            fence                          forget
//	queued      (pinned) waits on              error: PinnedHostUnavailable
//	starting    next attempt                   next attempt; pinned: as queued
//	active      next attempt; pinned, or no    error: HostLost; a placeholder: as
//	            longer offered: HostLost       by fence
//	deleting    deleted                        deleted
//	noticed     next attempt, or deleted       next attempt, or deleted
func (s *step) loseHost(e *entry, id compute.HostID, op compute.RequestOp) {
	inst, forget := e.inst, op == compute.OpForget
	switch {
	case inst.State == compute.StateDeleting:
		s.deleted(e, inst.Reason)
	case s.loseNoticed(e, id):
	case inst.State == compute.StateActive && (forget && !inst.IsPlaceholder() || pinned(inst)):
		s.end(e, &compute.Reason{
			Code: compute.HostLost, Host: id, Attempt: inst.Attempt, Detail: "its host was declared dead",
		})
	case forget && pinned(inst):
		s.end(e, &compute.Reason{
			Code: compute.PinnedHostUnavailable, Host: id, Attempt: inst.Attempt,
			Detail: "its host was declared gone",
		})
	case inst.State == compute.StateActive && !s.buildable(inst):
		s.end(e, &compute.Reason{
			Code: compute.HostLost, Host: id, Attempt: inst.Attempt,
			Detail: fmt.Sprintf(
				"its host was declared dead, and queue %s was removed, so no other can build it", inst.Queue,
			),
		})
	case inst.State != compute.StateQueued:
		s.evacuate(e, id)
	}
}

// buildable says whether there is a queue to build it from, or will be: that of a
// machine which runs may have been removed since.
func (s *step) buildable(inst *compute.Instance) bool {
	_, reason := s.view.Resolve(inst.Boot)
	return reason == nil || s.view.listed(inst.Queue) || s.view.CatalogBehind // then it awaits its queue
}

// evacuate builds it elsewhere: at once, with the whole of its waiting time
// before it, and, if it ran before, all its attempts.
func (s *step) evacuate(e *entry, id compute.HostID) {
	ran := e.inst.State == compute.StateActive
	s.change(e, func(inst *compute.Instance) {
		inst.Reason = &compute.Reason{
			Code: compute.HostLost, Host: id, Attempt: inst.Attempt, Detail: "its host was declared dead",
		}
		requeue(inst, time.Time{})
		if inst.Deadline = s.at().Add(inst.Boot.Deadline); inst.IsPlaceholder() {
			inst.Deadline = inst.Boot.Placeholder().Until
		}
		if ran {
			inst.Failures = nil
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// claim decides which host gets an instance: the first claim of the current attempt
// wins, the same claim again is granted again, every other is denied. A claim
// in the log beats a deadline that has not fired yet.
func (s *step) claim(e *entry, r compute.Report) {
	if r.Claim == "" || r.Attempt == 0 {
		s.reject("a claim needs an id and an attempt")
		return
	}
	switch reason := s.refusal(e, r); {
	case reason != nil:
		deny := s.denial(r, reason)
		deny.WantOffset = r.Fence < s.fences.epoch(r.Host, s.now)
		s.emit(deny)
		if e.keeps(r) {
			s.loseKept(e)
		}
		if reason.Code != compute.GroupRule {
			s.takenInVain(e, r)
		}
		e.noteDenied(r)
		if reason.Code == compute.GroupRule {
			s.overtake(e)
			s.emitEffects(e) // its host has taken the work out of the queue
		}
	case e.inst.Waits():
		s.overtake(e)
		s.keepClaim(e, r)
	case e.inst.State == compute.StateQueued:
		s.overtake(e)
		s.grant(e, r, e.inst.Boot.Set())
	default:
		s.regrant(e)
	}
}

// grant gives an instance to the host that claims it; of is the set that it is of, as it is from now on.
func (s *step) grant(e *entry, r compute.Report, of compute.Set) {
	s.change(e, func(inst *compute.Instance) {
		inst.State, inst.Host, inst.Claim, inst.Fence = compute.StateStarting, r.Host, r.Claim, r.Fence
		inst.Journal, inst.StartingAt, inst.PublishAt = r.Journal, s.at(), time.Time{}
		inst.SetMadeRoom(r.MadeRoom)
		if of != inst.Boot.Set() {
			inst.Boot.InSet(of)
		}
		if p := s.placeholderOf(inst); p != nil {
			inst.Boot.Takes(compute.InPlaceholder{ID: p.inst.ID, Attempt: p.inst.Attempt})
		}
	})
	s.noteVoice(s.hosts[r.Host], r.Voice()) // perhaps it is the first that is here
}

// refusal is why a claim is denied; nil if it is granted.
func (s *step) refusal(e *entry, r compute.Report) *compute.Reason {
	if e == nil {
		return attemptOver(r, "no such instance")
	}
	inst := e.inst
	switch inst.State {
	case compute.StateQueued:
		return s.refuseQueued(e, r)
	case compute.StateStarting, compute.StateActive:
		if !isHolder(inst, r) {
			return attemptOver(r, fmt.Sprintf("attempt %d is taken", inst.Attempt))
		}
		return nil
	case compute.StateError:
		if inst.Reason != nil && inst.Reason.Code == compute.DeadlineExceeded {
			return inst.Reason
		}
		return attemptOver(r, "it ended")
	}
	return cancelled()
}

// refuseQueued is why this host may not have an attempt that waits; nil if it may. A claim
// from before its host was fenced is denied: that host has undone its preparation or does not
// come back, and a grant would keep the instance there until an operator acts.
func (s *step) refuseQueued(e *entry, r compute.Report) *compute.Reason {
	if why := s.hostRefused(e, r); why != nil {
		return why
	}
	switch {
	case e.keeps(r):
		return nil // it was looked at when it came first
	case e.wasDenied(r):
		return attemptOver(r, "this claim was denied or given back")
	case e.kept() != nil:
		return attemptOver(r, "another host has claimed it, and waits for the rest of its set")
	}
	return s.groupRefuses(e, r.Host)
}

// hostRefused is why this host may not have an attempt that waits, whatever others have; nil if it may.
func (s *step) hostRefused(e *entry, r compute.Report) *compute.Reason {
	inst := e.inst
	switch {
	case r.Attempt != inst.Attempt:
		return attemptOver(r, fmt.Sprintf("attempt %d is the current one", inst.Attempt))
	case len(s.view.Twins[r.Host]) > 0:
		return attemptOver(r, describeTwins(s.view.Twins[r.Host]))
	case r.Fence < s.fences.epoch(r.Host, s.now):
		return attemptOver(r, "the host was declared dead after it had claimed this")
	case pinned(inst) && inst.Boot.Host != r.Host:
		return attemptOver(r, fmt.Sprintf("it is for host %s alone", inst.Boot.Host))
	case slices.Contains(inst.Boot.Avoid, r.Host):
		return attemptOver(r, "the request avoids this host")
	}
	return s.refuseTaker(e, r)
}

// mostDenied bounds how many denied claims of one attempt are remembered, the last that were heard: a host repeats its
// claim until it hears of the denial, so those that are repeated stay.
const mostDenied = 16

// noteDenied remembers that a claim of the present attempt was denied.
func (e *entry) noteDenied(r compute.Report) {
	if e != nil && e.pub != nil && r.Attempt == e.inst.Attempt {
		e.noteOver(r)
	}
}

// noteOver remembers that a claim is not to be granted any more, whatever changes.
func (e *entry) noteOver(r compute.Report) {
	x := e.pub.ensureClaims()
	c := hostsClaim{r.Host, r.Claim}
	x.over = slices.DeleteFunc(x.over, func(o hostsClaim) bool { return o == c })
	if x.over = append(x.over, c); len(x.over) > mostDenied {
		x.over = slices.Delete(x.over, 0, 1)
	}
}

// wasDenied says whether a claim of this attempt was denied, or kept once and is not any more: its host has undone what
// it had prepared, and may have repeated the claim before it heard that.
func (e *entry) wasDenied(r compute.Report) bool {
	return e.pub != nil && e.pub.claims != nil && slices.Contains(e.pub.claims.over, hostsClaim{r.Host, r.Claim})
}

// denial answers a claim with no.
func (s *step) denial(r compute.Report, why *compute.Reason) Tell {
	deny := s.answer(compute.CommandDeny, r)
	deny.Reason = why
	return Tell{Host: r.Host, Command: deny}
}

func attemptOver(r compute.Report, detail string) *compute.Reason {
	return &compute.Reason{Code: compute.AttemptOver, Host: r.Host, Attempt: r.Attempt, Detail: detail}
}

// regrant answers the holder's repeated claim: it has not heard its grant.
func (s *step) regrant(e *entry) {
	e.confirmAsked = false
	if e.inst.Confirm {
		s.change(e, func(inst *compute.Instance) { inst.Confirm = false })
		if e.inst.State == compute.StateStarting {
			return // the grant followed from the change
		}
	}
	s.emit(tell(e.inst, compute.CommandGrant, s.at()))
	e.toldAt = s.now
	s.reschedule(e)
}

// pinnedRefused ends pinned work that its host cannot take.
func (s *step) pinnedRefused(e *entry, r compute.Report) {
	if e == nil {
		return
	}
	inst := e.inst
	if inst.State == compute.StateQueued && taking(inst) {
		s.takerRefused(e, r)
		return
	}
	if inst.State == compute.StateQueued && !pinned(inst) {
		s.placeRefused(e, r)
		return
	}
	if inst.State == compute.StateQueued && inst.Boot.Host == r.Host && inst.Attempt == r.Attempt {
		s.end(e, &compute.Reason{
			Code: compute.PinnedHostUnavailable, Host: r.Host, Attempt: r.Attempt, Detail: r.Message,
		})
	}
}

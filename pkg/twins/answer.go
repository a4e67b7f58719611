// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// An agent that has begun takes nothing until it knows that it is alone, and asks
// with each beacon until then:
//
//	the last word under its name was "I have ended"  ─▶ Alone, at once
//	anything else ─▶ Begun: every other agent says so, in its next beacon, at once
//	   none does for AnswerTime    ─▶ Alone
//	   one does                    ─▶ twins, if that one was told of this one and this one of it;
//	                                  else Alone once it was silent for compute.SilentAfter
//
// An agent that was there before with another journal is no earlier process of this one, and is waited for
// as one that does: it may only stand still.
//
// No clock of a host counts, and a host's beacons are in one partition: what was read
// before a beacon that asks was said before it.

// AnswerTime is how long an agent that lives has to say so: it hears of the other from its
// stream, and its next beacon goes at once.
const AnswerTime = 9 * time.Second

// calledEvery is how often others are told of an agent that goes on asking.
const calledEvery = 20 * time.Second

// Answer is what an agent is to be told that has asked now: compute.CommandBegun (as all that
// speak for its host), compute.CommandAlone, or nothing.
func (w *Watch) Answer(id compute.HostID, by compute.Voice, now time.Time) compute.CommandOp {
	h := w.hosts[id]
	if h == nil {
		return compute.CommandNone
	}
	i := h.index(by)
	if i < 0 {
		return compute.CommandNone
	}
	switch v := h.voices[i]; {
	case v.heir && len(h.voices) == 1:
		return compute.CommandAlone
	case v.called.IsZero():
		return compute.CommandBegun
	case w.Of(id, now) == nil && now.Sub(v.called) >= AnswerTime && !h.others(v):
		return compute.CommandAlone
	case now.Sub(v.told) >= calledEvery:
		return compute.CommandBegun
	}
	return compute.CommandNone
}

// others says whether anybody else was heard since all were told of a voice, or has another journal.
func (h *host) others(of voice) bool {
	return slices.ContainsFunc(h.voices, func(v voice) bool {
		return !v.Same(of.Voice) && (v.at.After(of.called) || v.Journal != of.Journal)
	})
}

// Called notes that all that speak for a host were told that one of them has begun.
func (w *Watch) Called(id compute.HostID, by compute.Voice, now time.Time) {
	if h := w.hosts[id]; h != nil {
		if i := h.index(by); i >= 0 {
			v := &h.voices[i]
			if v.told = now; v.called.IsZero() {
				v.called = now
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// What an agent says of a machine that it does not have is true of *its* machines.
// Two agents may have one host name (a cloned disk), and both read the host's
// stream: what is asked of one, the other answers too. So "it is not here" counts
// only from the agent that has the instance, or once that one is known to be dead:
//
//	said by                         counts
//	the journal of the record       at once; but while another process with that
//	                                journal was heard of in the last QuietAfter, not;
//	                                in the last SilentAfter if both spoke at one time
//	another journal                 once the record's was not heard of for SilentAfter;
//	                                if both spoke for the host at one time, not before
//	                                contestedTimes as long has passed since they did;
//	                                nor until the hosts topic was readable for SilentAfter
//	no journal, or none in the      at once: agents of older versions
//	record
//
// What does not count yet is asked again as soon as it would; of an active instance the record says that
// it is to be asked. Nothing else here is kept with the records: a new owner of a partition has heard of no
// host yet, and listens for QuietAfter or SilentAfter before it believes a report about what was there.

// noteVoice takes note of which process spoke for a host.
func (s *step) noteVoice(h *host, by compute.Voice) {
	if by.Journal == "" {
		return
	}
	heard, known := h.voices[by]
	if !known {
		heard.first = s.now
		for v := range h.voices {
			h.restarted = h.restarted || v.Journal == by.Journal
		}
	}
	heard.last = s.now
	h.voices[by] = heard
	for v, heard := range h.voices {
		if s.now.Sub(heard.last) >= s.opts.SilentAfter {
			delete(h.voices, v)
		}
	}
}

// spoken is when a process was heard first and last.
type spoken struct{ first, last time.Time }

// together are two journals of a host whose agents spoke at one time.
type together struct{ a, b compute.JournalID }

// noteTwins takes note of processes that spoke for a host at the same time: they are several
// agents, and not one that was started again. Each is a twin of some other one, not of all: the one
// that speaks now is of those that were heard since it was heard first.
func (s *step) noteTwins(h *host, by compute.Voice) {
	all := s.view.Twins[h.id]
	if len(all) > 0 && h.twins == nil {
		h.twins, h.together = map[compute.Voice]bool{}, map[together]time.Time{}
	}
	for _, v := range all {
		h.twins[v] = true
		sinceFirst := !h.voices[v].last.Before(h.voices[by].first)
		if slices.ContainsFunc(all, by.Same) && v.Journal != by.Journal && sinceFirst {
			h.together[together{v.Journal, by.Journal}], h.together[together{by.Journal, v.Journal}] = s.now, s.now
		}
	}
}

// contestedTimes is how many SilentAfters go by after two agents spoke at one time before one of them is believed about
// what the other has. Until then neither replaces the other, however often each is started again: one of them may be a
// host that takes its time to come back. It does not last for ever: of a host that was set up anew while a copy of its
// disk ran, nobody else can say that its machines are gone, and they could not even be deleted.
const contestedTimes = 10

// contestedUntil is until when the report's journal is not believed about what that of the instance has, because both
// spoke at the same time; zero: they did not.
func (s *step) contestedUntil(h *host, e *entry, r compute.Report) time.Time {
	at := h.together[together{e.inst.Journal, r.Journal}]
	if at.IsZero() {
		return at
	}
	return at.Add(contestedTimes * s.opts.SilentAfter)
}

// twinsWithJournal is how many of the processes that spoke at the same time had a journal: two are a copied one.
func (h *host) twinsWithJournal(journal compute.JournalID) (n int) {
	for v := range h.twins {
		if v.Journal == journal {
			n++
		}
	}
	return n
}

// heardLately says whether a journal was heard of lately.
func (s *step) heardLately(h *host, journal compute.JournalID) bool {
	for v, heard := range h.voices {
		if v.Journal == journal && s.now.Sub(heard.last) < s.opts.SilentAfter {
			return true
		}
	}
	return false
}

// absent says whether a report is that a machine is not there.
func absent(op compute.ReportOp) bool {
	return op == compute.ReportFailed || op == compute.ReportGone || op == compute.ReportReturned
}

// countsFrom is when a report of the record's host, attempt and claim will count; zero:
// it does.
func (s *step) countsFrom(e *entry, r compute.Report) time.Time {
	has, h := e.inst.Journal, s.hosts[e.inst.Host]
	if has == "" || r.Journal == "" || h == nil {
		return time.Time{}
	}
	var due time.Time
	until := func(at time.Time) {
		if at.After(due) {
			due = at
		}
	}
	wait := s.opts.QuietAfter
	if r.Journal != has || h.twins[r.Voice()] || h.twinsWithJournal(has) > 1 {
		wait = s.opts.SilentAfter
		until(s.view.HostsUnreadAt.Add(wait))
	}
	until(h.since.Add(wait))
	until(s.contestedUntil(h, e, r))
	for v, heard := range h.voices {
		if v.Journal == has && v != r.Voice() {
			until(heard.last.Add(wait))
		}
	}
	if !due.After(s.now) {
		return time.Time{}
	}
	return due
}

// holder is the journal that has an instance of which this report says that it is
// there.
func (s *step) holder(e *entry, r compute.Report) compute.JournalID {
	if r.Op != compute.ReportStarted || r.Journal == "" || !s.countsFrom(e, r).IsZero() {
		return e.inst.Journal
	}
	return r.Journal
}

// askAgainAbout has a host asked whether it has an instance, once its answer counts. That it is to be asked is part of
// the record: it has said once that the machine is not there, and a new owner of the partition does not hear that
// again. It is not while the agent that has the instance is heard beside another one: it says that the machine is there,
// then the other that it is not, and so on without end.
func (s *step) askAgainAbout(e *entry, r compute.Report, due time.Time) {
	beside := r.Journal != e.inst.Journal && s.heardLately(s.hosts[e.inst.Host], e.inst.Journal)
	if e.inst.State == compute.StateActive && !going(e.inst) && !e.inst.Confirm && !beside {
		s.change(e, func(inst *compute.Instance) { inst.Confirm = true })
	}
	s.askAgain(e, due)
}

// askAgain has a host asked about an instance once its answer counts.
func (s *step) askAgain(e *entry, due time.Time) {
	e.confirmAsked = running(e.inst)
	h := s.hosts[e.inst.Host]
	if h.askAgainAt == nil {
		h.askAgainAt = map[*entry]time.Time{}
	}
	h.askAgainAt[e] = due
	s.reschedule(e)
}

// describeTwins says which agents speak for one host.
func describeTwins(list []compute.Voice) string {
	var each []string
	for _, v := range list {
		each = append(each, v.String())
	}
	return fmt.Sprintf("%d agents speak for this host: %s", len(list), strings.Join(each, "; "))
}

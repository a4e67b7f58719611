// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A queue is served in the order in which work was published, so 10,000 builds of one project would hold up what comes
// behind them. Of each project only so many are in a queue at a time as keep its hosts busy (its window); the others
// are *held* here, the longest waiting first, and are published as those before them are claimed. No partition needs to
// know of another's projects for that.
//
// A build counts until one that was published later is claimed: what lies before that one is being prepared, or no host
// may have it, and holds up nobody.

// share is what one project has in one queue.
type share struct {
	key      shareKey
	timer             // of the next look
	line     []*entry // in the order in which they were published, behind the last that was claimed; nil: it has left
	first    uint32   // number of line[0]
	ahead    int      // how many of line have not left
	held     heap[*entry]
	loaded   []*entry  // waiting since before the partition was loaded, in no order yet
	before   int       // how many the conductor before had here, with those that had just left the queue
	claims   int       // since the last look
	rate     int       // claims between the last two looks
	idle     int       // looks since the last claim
	patience int       // after as many looks without a claim more are published
	more     int       // published beyond the window, for nothing of it was claimed
	careful  time.Time // until when hosts that would take a build add nothing to the window
	dirty    bool
}

type shareKey struct {
	project compute.Project
	queue   compute.QueueName
}

func shareOf(e *entry) shareKey { return shareKey{e.inst.Project, e.inst.Queue} }

func (s *State) share(e *entry) *share {
	key := shareOf(e)
	h := s.shares[key]
	if h == nil {
		h = &share{
			key:  key,
			held: heap[*entry]{less: waitsLonger, index: func(e *entry) *int32 { return &e.pub.index }},
		}
		h.begin(s.opts)
		h.timer = s.newTimer(h)
		s.shares[key] = h
	}
	return h
}

// inWindow says whether work may be published now: it is not in the line, and there is room in front of what is held.
func (s *step) inWindow(e *entry) bool {
	h := s.shares[shareOf(e)]
	return h == nil || h.ahead < s.window(h) && (len(h.held.items) == 0 || waitsLonger(e, h.held.top()))
}

// window is how many builds of a project may be in a queue: a few, some for each host that would take one now, and as
// many as were claimed lately in the time that it takes to hear of it.
func (s *step) window(h *share) int {
	n := s.least(h) + h.rate + h.more
	if !s.now.Before(h.careful) {
		hosts := s.opts.SharePerHost * int(s.view.Advice[h.key.queue].Hosts.Eligible)
		n += hosts * int(s.view.weight(h.key.project))
	}
	return n
}

// least is the window where no host would take a build.
func (s *step) least(h *share) int { return s.opts.ShareLeast * int(s.view.weight(h.key.project)) }

// enterLine counts work that was published.
func (s *State) enterLine(e *entry) {
	h := s.share(e)
	e.pub.share, e.pub.number = h, h.first+uint32(len(h.line))
	h.line = append(h.line, e)
	h.ahead++
}

// loadShare takes note of work that waited when the partition was loaded: it is in the queue, perhaps, or is offered anew.
func (s *State) loadShare(e *entry) {
	if !pinned(e.inst) && !taking(e.inst) && e.inst.Whole() == "" {
		h := s.share(e)
		h.loaded = append(h.loaded, e)
		s.touchShare(h)
		s.unsorted = true
	}
}

// sortAllLoaded does that for all shares before anything happens after the load: what ends of it, as by its deadline,
// was in the queue, and what comes behind it may not be.
func (s *step) sortAllLoaded() {
	if !s.unsorted {
		return
	}
	s.unsorted = false
	for _, h := range s.touchedShares {
		s.sortLoaded(h)
	}
}

// repeatReleased publishes work of a share that is only guessed to be in the queue: the conductor before may have ended
// before it did what followed from e, which left its queue.
func (s *step) repeatReleased(e *entry) {
	h := s.shares[shareOf(e)]
	if e.inst.State == compute.StateQueued && e.inst.PublishAt.IsZero() || h == nil {
		return // it counts already
	}
	if h.before++; h.before > s.least(h) { // of fewer none was held
		s.repeatGuessed(h)
	}
}

// repeatGuessed publishes again what may not be in the queue, of what is guessed to be there after a load. The
// conductor before may have let a build go and ended before it published it: that is the last, or one with the same
// QueuedAt, since it may have published those in another order. And it may have held what came late behind work that was
// queued later.
func (s *step) repeatGuessed(h *share) {
	var again []*entry
	for _, e := range slices.Backward(h.line) {
		if e == nil || e.pub.state != unknown {
			continue
		}
		if len(again) == 0 || e.cameLate() || e.inst.QueuedAt.Equal(again[0].inst.QueuedAt) {
			again = append(again, e)
		}
	}
	for _, e := range slices.Backward(again) {
		s.emitEffects(e)
	}
}

// cameLate says whether work may have been published later than it was queued. Of members their group knows more; see
// publishLoaded.
func (e *entry) cameLate() bool { return e.inst.Attempt > 1 && e.group() == nil }

// holdBack keeps work until its project's share lets it go.
func (s *State) holdBack(e *entry) {
	s.unpublish(e)
	h := s.share(e)
	e.pub.state, e.pub.share = heldByShare, h
	h.held.fix(e)
	s.held.ByShare++
	if h.timer.index == 0 {
		if len(h.held.items) == 1 { // else it is about to be looked at in this tick
			h.begin(s.opts)
		}
		s.schedule(&h.timer, s.lastNow.Add(s.opts.ShareEvery))
	}
}

// leaveShare takes work out of the line, or out of what is held.
func (s *State) leaveShare(e *entry) {
	h := e.pub.share
	switch {
	case h == nil:
		return
	case e.pub.state == heldByShare:
		h.held.remove(e)
		s.held.ByShare--
	case e.pub.number >= h.first: // else it was overtaken
		h.line[e.pub.number-h.first] = nil
		h.ahead--
	}
	e.pub.share, e.pub.number = nil, 0
	s.touchShare(h)
}

// overtake takes note that work was claimed: nothing before it counts any more.
func (s *State) overtake(e *entry) {
	h := e.pub.share
	if h == nil {
		return
	}
	h.claims++
	h.idle, h.more, h.patience = 0, 0, s.opts.SharePatience
	if n := e.pub.number; e.pub.state != heldByShare && n >= h.first {
		h.cut(int(n - h.first))
	}
	s.touchShare(h)
}

// cut takes the first of the line out of it.
func (h *share) cut(n int) {
	for _, e := range h.line[:n] {
		if e != nil {
			h.ahead--
		}
	}
	h.line, h.first = h.line[n:], h.first+uint32(n)
}

func (s *State) touchShare(h *share) {
	if !h.dirty {
		h.dirty = true
		s.touchedShares = append(s.touchedShares, h)
	}
}

// releaseShares publishes what may be of the shares in which something happened.
func (s *step) releaseShares() {
	for len(s.touchedShares) > 0 {
		h := s.touchedShares[0]
		s.touchedShares, h.dirty = s.touchedShares[1:], false
		if s.shares[h.key] != h {
			continue // what was overtaken has left one that is not needed any more
		}
		s.sortLoaded(h)
		for len(h.line) > 0 && h.line[0] == nil {
			h.cut(1)
		}
		for len(h.held.items) > 0 && h.ahead < s.window(h) {
			e := h.held.top()
			s.leaveShare(e)
			e.pub.state = unpublished
			s.emitEffects(e)
		}
		if len(h.line)+len(h.held.items) == 0 {
			s.schedule(&h.timer, time.Time{})
			delete(s.shares, h.key)
		}
	}
}

// sortLoaded puts what waited when the partition was loaded in order. As many as a project may have in a queue at the
// least were there; the others were perhaps held by another conductor, and are held again. Of those that were there some
// are offered anew for another reason, as their queue was listed lately, and the others are taken to be there still.
// Nobody knows how many hosts would have taken a build then, so for the first seconds that does not count: what is there
// after all is claimed meanwhile.
func (s *step) sortLoaded(h *share) {
	if len(h.loaded) == 0 {
		return
	}
	h.careful = s.now.Add(time.Duration(s.opts.SharePatience) * s.opts.ShareEvery)
	slices.SortFunc(h.loaded, longestFirst)
	h.before = 0
	for _, e := range h.loaded {
		if e.pub == nil || e.pub.told || e.inst.Queue != h.key.queue {
			continue // it was not in the queue
		}
		h.before++
		switch {
		case e.pub.state != unknown: // it is offered anew
		case h.before <= s.least(h):
			s.enterLine(e)
		default:
			s.holdBack(e)
			s.reschedule(e)
		}
	}
	h.loaded = nil
	if h.before > s.least(h) { // else the conductor before has held none
		s.repeatGuessed(h)
	}
}

// fire looks at a share that holds something, or has until now.
func (h *share) fire(s *step, _ time.Time) {
	if s.shares[h.key] != h {
		return
	}
	if len(h.held.items) == 0 {
		h.begin(s.opts)
		return
	}
	h.rate, h.claims = h.claims, 0
	if h.idle++; h.idle >= s.patience(h) {
		h.idle, h.patience = 0, min(2*h.patience, mostPatience)
		h.more += s.passes(h)
	}
	s.schedule(&h.timer, s.now.Add(s.opts.ShareEvery))
	s.touchShare(h)
}

// begin forgets what was counted while something was held.
func (h *share) begin(o Options) {
	h.claims, h.rate, h.idle, h.more, h.patience = 0, 0, 0, 0, o.SharePatience
}

// mostPatience bounds after how many looks without a claim more is published.
const mostPatience = 60

// patience is after how many looks without a claim that is. Where hosts are full, nothing is claimed mostly because of
// that; but what is there may be for none of them all the same.
func (s *step) patience(h *share) int {
	if s.mayTake(h) {
		return h.patience
	}
	return 12 * h.patience
}

// passes is how many more are published after that. Where hosts would take work and take none of this, it is for none
// of them, and what is for one may be behind all of it: so it is more each time, up to mostPassed windows. It is not more
// than that, for what is known of hosts may be wrong, and then other projects wait behind it.
func (s *step) passes(h *share) int {
	if s.mayTake(h) {
		return min(max(s.opts.ShareLeast, h.more), mostPassed*s.opts.ShareLeast)
	}
	return s.opts.ShareLeast
}

const mostPassed = 4

// mayTake says whether hosts would take work of the queue, for all that is known.
func (s *step) mayTake(h *share) bool {
	advice, known := s.view.Advice[h.key.queue]
	return !known || advice.Hosts.Eligible > 0
}

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// boot is one that was or will be sent, and when what was seen of it. Times are
// of this process's own clock; zero: not yet.
type boot struct {
	name    string             // of this boot alone in all the run
	id      compute.InstanceID // empty until somebody says it
	project compute.Project
	queue   int
	rules   *compute.PlacementRules // nil: none
	waits   time.Duration           // for room, at most; 0: as long as who names none

	due      time.Time // was meant to be sent
	accepted time.Time // the answer was there
	refused  error     // the answer was another one

	// As the log of instances was read:
	state    compute.State
	attempt  compute.Attempt // the last one
	host     compute.HostID
	queued   time.Time
	starting time.Time
	active   time.Time
	ended    time.Time // error or deleted
	deleting bool      // the bench has asked for it
}

// settled says whether nothing more is to come of the boot itself. What was
// refused and is not in the log is not to come; an answer that was lost may be.
func (b *boot) settled() bool {
	return !b.active.IsZero() || !b.ended.IsZero() || b.refused != nil && b.state == compute.StateNone
}

// over says whether it ran and is no more, or never will.
func (b *boot) over() bool {
	return !b.ended.IsZero() || b.refused != nil && b.state == compute.StateNone
}

// ledger is all boots of a run. The senders and the reader of the log write it.
type ledger struct {
	mu    sync.Mutex
	boots map[string]*boot // by name
	alive []*boot          // active and not asked to be deleted, the oldest first
	news  chan struct{}
	moved time.Time // when something was last seen
}

func newLedger() *ledger {
	return &ledger{boots: map[string]*boot{}, news: make(chan struct{}), moved: time.Now()}
}

// enter makes boots known, before they are sent.
func (l *ledger) enter(boots []*boot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range boots {
		l.boots[b.name] = b
	}
}

// read lets somebody read boots while others may write them.
func (l *ledger) read(look func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	look()
}

// observation is what one record of the log says.
type observation struct {
	name    string
	id      compute.InstanceID
	state   compute.State
	attempt compute.Attempt
	host    compute.HostID
}

// observe takes what was read from the log at a moment.
func (l *ledger) observe(at time.Time, observations []observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range observations {
		b := l.boots[s.name]
		if b == nil {
			continue
		}
		b.attempt = max(b.attempt, s.attempt)
		if b.state == s.state {
			continue
		}
		b.id, b.state, b.host = s.id, s.state, s.host
		b.stamp(at)
		if s.state == compute.StateActive && !b.deleting {
			l.alive = append(l.alive, b)
		}
	}
	l.wake(at)
}

// stamp notes when a state was first seen, and those before it that were not:
// they were passed in the same moment.
func (b *boot) stamp(at time.Time) {
	first := func(t *time.Time) {
		if t.IsZero() {
			*t = at
		}
	}
	switch b.state {
	case compute.StateActive:
		first(&b.active)
		fallthrough
	case compute.StateStarting:
		first(&b.starting)
		fallthrough
	case compute.StateQueued:
		first(&b.queued)
	case compute.StateError, compute.StateDeleted:
		first(&b.ended)
	}
}

// answered notes what became of sending a boot.
func (l *ledger) answered(b *boot, at time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		b.refused = err
	} else {
		b.accepted = at
	}
	l.wake(at)
}

// pending says whether a boot that was sent is still to come.
func (l *ledger) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.boots {
		if !b.accepted.IsZero() && !b.settled() {
			return true
		}
	}
	return false
}

// progress is how many of these were accepted, and how many have settled.
func (l *ledger) progress(boots []*boot) (accepted, settled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range boots {
		if !b.accepted.IsZero() {
			accepted++
		}
		if b.settled() {
			settled++
		}
	}
	return accepted, settled
}

// living is how many machines live that nobody asked to be deleted.
func (l *ledger) living() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.alive)
}

// wake wakes everything that waits. Called with mu held.
func (l *ledger) wake(at time.Time) {
	l.moved = at
	close(l.news)
	l.news = make(chan struct{})
}

// oldest takes out of the machines that live the oldest ones above a number, to
// be deleted.
func (l *ledger) oldest(above int) []*boot {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := max(len(l.alive)-above, 0)
	out := l.alive[:n:n]
	l.alive = l.alive[n:]
	for _, b := range out {
		b.deleting = true
	}
	return out
}

// wait is a channel that closes with the next news.
func (l *ledger) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.news
}

// await answers true when done says so of every boot, and false when nothing at
// all has moved for as long as stall. done must stay true once it is.
func (l *ledger) await(ctx context.Context, boots []*boot, stall time.Duration, done func(*boot) bool) (bool, error) {
	timer := time.NewTimer(stall)
	defer timer.Stop()
	next := 0
	for {
		l.mu.Lock()
		for next < len(boots) && done(boots[next]) {
			next++
		}
		news, quiet := l.news, time.Since(l.moved)
		l.mu.Unlock()
		if next == len(boots) {
			return true, nil
		}
		timer.Reset(stall - quiet)
		select {
		case <-news:
		case <-timer.C:
			if l.quiet() >= stall {
				return false, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (l *ledger) quiet() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.moved)
}

// touch says that something has moved, as at the beginning of a phase.
func (l *ledger) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = time.Now()
}

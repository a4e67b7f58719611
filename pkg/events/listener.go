// SPDX-License-Identifier: Apache-2.0

package events

import (
	"math"
	"slices"
	"time"
)

// notFollowed is the position in a partition that a listener does not follow: all is before it.
const notFollowed = math.MaxInt64

// atOnce is how many events a listener takes out of the log at a time.
const atOnce = 64

// Kind says what a listener is told.
type Kind uint8

// The kinds.
const (
	Nothing Kind = iota // for now: Wait
	Change              // Item.Event
	Gap                 // some changes before Listener.At may not have been told: they are forgotten
	Foreign             // likewise: the id to begin at is of another log, or past the end of this one
	Slow                // likewise, because the listener was too slow. It is over
	Stopped             // this node stops. It is over, and nothing is missing up to Listener.At
)

// Item is what Next answers.
type Item struct {
	Kind  Kind
	Event *Event
}

// Listener hears what is wanted. It is used by one goroutine at a time.
type Listener struct {
	log     *Log
	wanted  Wanted
	since   time.Time
	caller  string
	follow  []int32 // partitions
	at      []int64 // next offset, by partition
	number  uint64  // of the next event to take out of the log
	chunk   []*Event
	foreign bool
	began   bool // it has been told something, or began with what comes: what it misses now it was too slow for
	closed  bool
	news    <-chan struct{}
}

// Next is what comes next. With Nothing there is no more for now, and Wait tells when to ask again.
func (l *Listener) Next() Item {
	for {
		for len(l.chunk) > 0 {
			e := l.chunk[0]
			l.chunk = l.chunk[1:]
			if e.Offset < l.at[e.Partition] {
				continue
			}
			l.at[e.Partition] = e.Offset + 1
			if !e.Time.Before(l.since) && l.wanted.Takes(e) {
				return Item{Change, e}
			}
		}
		if kind := l.take(); kind != Nothing || len(l.chunk) == 0 {
			return Item{Kind: kind}
		}
	}
}

// Wait is closed once Next has something, after it answered Nothing.
func (l *Listener) Wait() <-chan struct{} { return l.news }

// take takes the next events out of the log, or says why it cannot.
func (l *Listener) take() Kind {
	l.log.mu.RLock()
	defer l.log.mu.RUnlock()
	switch missed, overtaken := l.missed(), l.number < l.log.first; {
	case l.log.stopped:
		return Stopped
	case l.foreign:
		l.foreign = false
		return Foreign
	case missed && overtaken && l.began:
		return Slow
	case missed:
		l.lift()
		return Gap
	}
	l.number = max(l.number, l.log.first) // what is not there any more is of partitions that it does not follow
	l.began = true
	l.chunk = l.chunk[:0]
	for l.number < l.log.next && len(l.chunk) < atOnce {
		l.chunk = append(l.chunk, l.log.ring[l.number%uint64(l.log.bounds.Kept)])
		l.number++
	}
	if len(l.chunk) == 0 {
		l.news = l.log.news
	}
	return Nothing
}

// missed says whether something that it was not told is not there any more.
func (l *Listener) missed() bool {
	return slices.ContainsFunc(l.follow, func(p int32) bool { return l.at[p] < l.log.parts[p].floor })
}

// lift has it go on where the log is whole.
func (l *Listener) lift() {
	for _, p := range l.follow {
		l.at[p] = max(l.at[p], l.log.parts[p].floor)
	}
}

// Renew has it go on with what comes from now on. It stays the same one of the listeners that there may be.
func (l *Listener) Renew() {
	l.log.mu.RLock()
	defer l.log.mu.RUnlock()
	for _, p := range l.follow {
		l.at[p] = l.log.parts[p].head
	}
	l.number, l.chunk, l.foreign, l.began = l.log.next, nil, false, true
}

// Foreign says that it began with an id of another log, and has not been told so yet.
func (l *Listener) Foreign() bool { return l.foreign }

// At is where it goes on: the id of what it was told last.
func (l *Listener) At() ID {
	out := ID{l.log.name, make(Positions, len(l.follow))}
	for _, p := range l.follow {
		out.Positions[p] = l.at[p]
	}
	return out
}

// Close ends it. A second call does nothing.
func (l *Listener) Close() {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.log.count--
	if l.log.open[l.caller]--; l.log.open[l.caller] == 0 {
		delete(l.log.open, l.caller)
	}
}

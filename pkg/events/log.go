// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Bounds of a Log. All must be positive.
type Bounds struct {
	Kept      int // events in memory
	Bytes     int // that they take, about: fewer are kept where their texts are long
	Listeners int // at once
	OfCaller  int // of them, of one caller
}

// Log is the newest of what was read. Entries come from one goroutine, those of a partition in order; listeners may be
// used by others at the same time.
//
// In each partition it is whole from its floor on: all that was written there is in memory.
//
//	partition 3:   ·  ·  ·  ·  ▌e  e  e  e  e  e▐
//	                           floor            head
//
// The floor rises when an event has to make room or is forgotten, and to each record before which something is missing.
type Log struct {
	name   string // in ids
	bounds Bounds

	mu      sync.RWMutex
	ring    []*Event // number n is at n % bounds.Kept
	first   uint64   // number of the oldest event
	next    uint64   // number of the next event
	bytes   int      // of all of them
	parts   []part   // by partition
	news    chan struct{}
	stopped bool
	open    map[string]int // listeners, by caller
	count   int            // of all of them
}

// part is what is known of a partition.
type part struct {
	floor int64
	lost  time.Time // when the last record below the floor was written
	head  int64     // behind the last record
}

// NewLog is an empty log of so many partitions. The name is that of what it is read from (NameOf).
func NewLog(name string, b Bounds, partitions int32) *Log {
	return &Log{name: name, bounds: b, parts: make([]part, partitions), news: make(chan struct{}), open: map[string]int{}}
}

// Take appends what records say.
func (l *Log) Take(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		if e.Partition < 0 || int(e.Partition) >= len(l.parts) {
			continue // nobody can follow it
		}
		if p := &l.parts[e.Partition]; e.Missing {
			p.floor, p.lost = e.Offset, e.Time
		}
		if e.Event == nil {
			p := &l.parts[e.Partition]
			p.floor, p.lost = e.Offset+1, e.Time
		} else {
			l.append(e.Event)
		}
		l.parts[e.Partition].head = e.Offset + 1
	}
	l.wake()
}

func (l *Log) append(e *Event) {
	if int(l.next-l.first) == l.bounds.Kept {
		l.drop()
	}
	if len(l.ring) < l.bounds.Kept {
		l.ring = append(l.ring, e)
	} else {
		l.ring[l.next%uint64(l.bounds.Kept)] = e
	}
	l.next++
	for l.bytes += e.size(); l.bytes > l.bounds.Bytes && l.first < l.next-1; {
		l.drop()
	}
}

// drop forgets the oldest event.
func (l *Log) drop() {
	e := &l.ring[l.first%uint64(l.bounds.Kept)]
	l.lose(*e)
	l.bytes -= (*e).size()
	l.first++
	*e = nil
}

// Forget has each partition be whole from behind the last event that was written before then.
func (l *Log) Forget(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.first; n < l.next; n++ {
		if e := l.ring[n%uint64(l.bounds.Kept)]; e.Time.Before(before) {
			l.lose(e)
		}
	}
}

// lose raises a partition's floor above an event.
func (l *Log) lose(e *Event) {
	if p := &l.parts[e.Partition]; e.Offset >= p.floor {
		p.floor, p.lost = e.Offset+1, e.Time
	}
}

func (l *Log) wake() {
	close(l.news)
	l.news = make(chan struct{})
}

// Stop tells all listeners that this node stops, and refuses new ones. A second call does nothing.
func (l *Log) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.stopped = true
		l.wake()
	}
}

// Listeners is how many there are.
func (l *Log) Listeners() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.count
}

// Ahead says whether an id is past all that was read here, though it names this log: this node has to catch up, or the
// log has lost its end.
func (l *Log) Ahead(from ID) bool {
	if from.Log != l.name {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for p, offset := range from.Positions {
		if p >= 0 && int(p) < len(l.parts) && offset > l.parts[p].head {
			return true
		}
	}
	return false
}

// Wish is what a listener wants to hear.
type Wish struct {
	Wanted     Wanted
	Partitions []int32 // in which that is; nil: all
	From       ID
	Since      time.Time // without From: all that is known since then; zero: what comes from now on
	Caller     string    // empty: it is not bounded by itself
}

// Listen begins to listen; the listener must be closed. It is refused with KindUnavailable where there are as many as
// there may be, or this node stops.
func (l *Log) Listen(w Wish) (*Listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(w); err != nil {
		return nil, err
	}
	out := &Listener{log: l, wanted: w.Wanted, since: w.Since, caller: w.Caller, number: l.next, follow: w.Partitions}
	if w.Partitions == nil {
		for p := range l.parts {
			out.follow = append(out.follow, int32(p))
		}
	}
	out.at = make([]int64, len(l.parts))
	for p := range out.at {
		out.at[p] = notFollowed
	}
	if err := l.place(out, w); err != nil {
		return nil, err
	}
	l.open[w.Caller]++
	l.count++
	return out, nil
}

// admit refuses a listener too many.
func (l *Log) admit(w Wish) error {
	switch {
	case l.stopped:
		return &compute.Error{
			Kind: compute.KindUnavailable, Message: "this node stops", Remedy: "go on at another one",
		}
	case l.count >= l.bounds.Listeners:
		return l.tooMany("this node has so many listeners already")
	case w.Caller != "" && l.open[w.Caller] >= l.bounds.OfCaller:
		return l.tooMany(fmt.Sprintf("%d of them are yours, and one caller may have no more", l.bounds.OfCaller))
	}
	return nil
}

func (l *Log) tooMany(message string) error {
	return &compute.Error{
		Kind: compute.KindUnavailable, Field: "limits.listeners", Value: fmt.Sprint(l.bounds.Listeners), Message: message,
		Remedy: "end one of them, ask another node, or try again later",
	}
}

// place puts a new listener where it wants to begin.
func (l *Log) place(out *Listener, w Wish) error {
	for _, p := range out.follow {
		part := l.parts[p]
		from, given := w.From.Positions[p]
		switch {
		case w.From.Positions != nil && w.From.Log != l.name:
			out.at[p], out.foreign = part.head, true
			continue
		case w.From.Positions == nil && w.Since.IsZero():
			out.at[p], out.began = part.head, true
			continue
		case w.From.Positions == nil && part.lost.Before(w.Since):
			out.at[p] = part.floor // what is missing is older
		case w.From.Positions == nil:
			out.at[p] = 0
		case !given:
			return compute.Invalid("Last-Event-ID", shortened(w.From.String()),
				fmt.Sprintf("it says nothing of partition %d: give an id that came from a listener of the same project", p))
		case from > part.head:
			out.at[p], out.foreign = part.head, true
		default:
			out.at[p] = from
		}
		out.number = l.first
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"time"

	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/wire"
)

// Cursor is how far one partition has been read.
type Cursor struct {
	Next       int64     // the offset to fetch next: everything below has been handled
	End        int64     // where the partition ended when it was last fetched; -1: not known yet
	Lost       bool      // not fetched until its leader is known
	Alone      bool      // fetched by itself next: see advance
	CaughtUpAt time.Time // up to when all that was said is known; zero: never
	Wrote      Epoch     // of the leader that wrote what lies just before next
}

// Epoch is the epoch of a partition's leader. The zero value is one that is not known.
type Epoch struct {
	number int32
	known  bool
}

// EpochOf is an epoch as Kafka says it: below 0 it is not known.
func EpochOf(number int32) Epoch {
	if number < 0 {
		return Epoch{}
	}
	return Epoch{number, true}
}

// WrittenBy says under which epoch a log was written from an offset on.
type WrittenBy = unpack.Epoch

// Number is the epoch as Kafka is told it: -1 if it is not known.
func (e Epoch) Number() int32 {
	if !e.known {
		return -1
	}
	return e.number
}

// MarkLost stops fetching a partition until its leader is known, after an answer that says what is wrong.
func (c *Cursor) MarkLost(f Part) {
	if c.Lost = true; f.unsure {
		c.Wrote = Epoch{} // or it would be asked in vain for ever
	}
}

// Behind is how many offsets there are that have not been read.
func (c *Cursor) Behind() int64 { return max(0, c.End-c.Next) }

// Cursors is how far each partition has been read.
type Cursors map[int32]*Cursor

// AtEnd says whether every partition has been read to the end it last had.
func (c Cursors) AtEnd() bool {
	for _, p := range c {
		if p.End < 0 || p.Next < p.End {
			return false
		}
	}
	return true
}

// CaughtUpAt is up to when all that was said in every partition is known.
func (c Cursors) CaughtUpAt() (oldest time.Time) {
	for _, p := range c {
		if oldest.IsZero() || p.CaughtUpAt.Before(oldest) {
			oldest = p.CaughtUpAt
		}
		if p.CaughtUpAt.IsZero() {
			break
		}
	}
	return oldest
}

// Reached says whether every partition has been read to these offsets.
func (c Cursors) Reached(ends map[int32]int64) bool {
	for p, end := range ends {
		if at, ok := c[p]; ok && at.Next < end {
			return false
		}
	}
	return true
}

// Part is what a fetch brought of one partition.
type Part struct {
	Partition int32
	Records   []wire.Record
	From      int64 // the offset that was asked for
	Next      int64 // the offset after the last one that was looked at
	End       int64 // where the partition ends for this reader
	Bytes     int   // of the log, whether or not they held a record for this reader
	wrote     Epoch // of the leader that wrote the last batch
	asked     Epoch // of the leader that wrote what had been read before, as this one was told
	Skipped   bool  // from was not in the log any more; next is the oldest offset that is
	Alone     bool  // no other partition was in the request
	diverged  bool  // the log does not have what was read, and is another one from end on: see fetch.add
	unsure    bool  // the leader cannot say whether it has
	Err       error
	Epochs    []WrittenBy // of the leaders that wrote what was looked at
}

// Advance moves the cursor over what was fetched.
//
// A position must get to the end even where no record sits: what is behind the last record may be markers of
// transactions, aborted records, or nothing at all where compaction removed the tail. The first two come as bytes
// without records, and next passes them. The third comes as no bytes below the end; but so does a partition that got
// no share of the answer to a request for many. Only when it is asked for alone, no bytes mean that there is nothing.
//
// The leader that wrote what lies before the position is known only where it was read: behind a gap it may have been
// another.
func (c *Cursor) Advance(f Part) {
	if f.Next > c.Next {
		c.Next, c.Wrote = f.Next, f.wrote
	}
	if f.Skipped {
		return // the end is not known from this
	}
	c.End = f.End
	gap := f.Bytes == 0 && c.Next < c.End
	if gap && f.Alone {
		c.Next, c.Wrote = c.End, Epoch{}
	}
	c.Alone = gap && !f.Alone
}

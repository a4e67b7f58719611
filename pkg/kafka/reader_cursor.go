package kafka

import (
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// cursor is how far one partition has been read.
type cursor struct {
	next  int64     // the offset to fetch next: everything below has been handled
	end   int64     // where the partition ended when it was last fetched; -1: not known yet
	lost  bool      // not fetched until it is known who leads it
	alone bool      // fetched by itself next: see advance
	heard time.Time // up to when all that was said is known; zero: never
	wrote term      // of the leader that wrote what lies just before next
}

// term is a leader's epoch. The zero value is one that is not known.
type term struct {
	epoch int32
	known bool
}

// termOf is an epoch as Kafka says it: below 0 it is not known.
func termOf(epoch int32) term {
	if epoch < 0 {
		return term{}
	}
	return term{epoch, true}
}

// number is the term as Kafka is told it.
func (t term) number() int32 {
	if !t.known {
		return -1
	}
	return t.epoch
}

// forsake leaves a partition alone until it is known who leads it, after an answer
// that says what is wrong.
func (c *cursor) forsake(f fetchedPart) {
	if c.lost = true; f.unsure {
		c.wrote = term{} // or it would be asked in vain for ever
	}
}

// behind is how many offsets there are that have not been read.
func (c *cursor) behind() int64 { return max(0, c.end-c.next) }

// cursors is how far each partition has been read.
type cursors map[int32]*cursor

// atEnd says whether every partition has been read to the end it last had.
func (c cursors) atEnd() bool {
	for _, p := range c {
		if p.end < 0 || p.next < p.end {
			return false
		}
	}
	return true
}

// heard is up to when all that was said in every partition is known.
func (c cursors) heard() (oldest time.Time) {
	for _, p := range c {
		if oldest.IsZero() || p.heard.Before(oldest) {
			oldest = p.heard
		}
		if p.heard.IsZero() {
			break
		}
	}
	return oldest
}

// reached says whether every partition has been read to these offsets.
func (c cursors) reached(ends map[int32]int64) bool {
	for p, end := range ends {
		if at, ok := c[p]; ok && at.next < end {
			return false
		}
	}
	return true
}

// fetchedPart is what a fetch brought of one partition.
type fetchedPart struct {
	partition int32
	records   []wire.Record
	from      int64 // the offset that was asked for
	next      int64 // the offset after the last one that was looked at
	end       int64 // where the partition ends for this reader
	bytes     int   // of the log, whether or not they held a record for this reader
	wrote     term  // of the leader that wrote the last batch
	skipped   bool  // from was not in the log any more; next is the oldest offset that is
	alone     bool  // no other partition was in the request
	diverged  bool  // the log does not have what was read, and is another one from end on: see fetch.add
	unsure    bool  // the leader cannot say whether it has
	err       error
}

// advance moves the cursor over what was fetched.
//
// A position must get to the end even where no record sits: what is behind the
// last record may be markers of transactions, aborted records, or nothing at
// all where compaction removed the tail. The first two come as bytes without
// records, and next passes them. The third comes as no bytes below the end;
// but so does a partition whose turn did not come in a request for many. Only
// when it is asked for alone, no bytes mean that there is nothing.
//
// Who wrote what lies before the position is known only where it was read: behind
// a gap the leader may have been another.
func (c *cursor) advance(f fetchedPart) {
	if f.next > c.next {
		c.next, c.wrote = f.next, f.wrote
	}
	if f.skipped {
		return // the end is not known from this
	}
	c.end = f.end
	gap := f.bytes == 0 && c.next < c.end
	if gap && f.alone {
		c.next, c.wrote = c.end, term{}
	}
	c.alone = gap && !f.alone
}

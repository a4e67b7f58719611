// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// cursor is how far one partition has been read.
type cursor struct {
	next   int64     // the offset to ask for next: everything below has been handed over
	target int64     // where the partition ended when it was first asked; -1: not known yet
	end    int64     // the last stable offset as of the last answer; -1: not known yet
	began  bool      // it was answered about: next is no guess any more
	by     *request  // the open question about it; nil: none
	asked  time.Time // when it was last asked for
	lost   bool      // not asked for until its leader is known
	alone  bool      // asked for by itself next: see take
	halved int       // how often the room for it is: an answer with more has not come
	// missing is since when, and misses how often, no broker has what was read; zero: the
	// last answer had.
	missing time.Time
	misses  int
	after   time.Duration // for how long that is not believed
	last    mark          // the last record that was handed over
	verify  bool          // asked for from last on next: whether the log still has it is not known
	beyond  bool          // verify: asked for from next on first, for the log has seemed to end before it for long
}

// mark tells a record from any other at its offset. The zero value is of none.
type mark struct {
	offset int64
	sum    uint64
	known  bool
}

func markOf(r wire.Record) mark {
	h := fnv.New64a()
	_, _ = h.Write(r.Key)
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(r.Value)
	return mark{r.Offset, h.Sum64(), true}
}

// from is the offset to ask for.
func (c *cursor) from() int64 {
	if c.verify && !c.beyond {
		return c.last.offset
	}
	return c.next
}

// mostHalved leaves 64 KiB: an answer is then hardly larger than one record batch, which comes whole.
const mostHalved = 6

// shrink takes note of a question about it alone to which no answer came.
func (c *cursor) shrink() { c.halved = min(c.halved+2, mostHalved) }

// byItself says whether it is asked for alone.
func (c *cursor) byItself() bool { return c.alone || c.halved > 0 }

// doubt has it verified that the log still is the one that was read. A broker that lacked records may have been
// elected, and the log may have grown beyond the position again: then nothing else tells. (Not every client can ask
// for the epoch of a leader, KIP-320.)
func (c *cursor) doubt() { c.verify = c.last.known }

// parted is the first offset at which an answer to such a question contradicts what was read; -1: none does. Behind
// the last record that was handed over there were only takeovers. A record may also be gone: by compaction.
func (c *cursor) parted(p Part) int64 {
	if !c.verify {
		return -1
	}
	for _, r := range committed(p, c.last.offset) {
		switch {
		case r.Offset >= c.next:
			return -1
		case !r.IsTakeover() && markOf(r) != c.last:
			return r.Offset
		}
	}
	return -1
}

// compares says whether an answer reaches the last record that was handed over: others may have had their turn in it.
func (c *cursor) compares(p Part) bool {
	return slices.ContainsFunc(p.Spans, func(s Span) bool {
		end := max(s.First, s.Last)
		if n := len(s.Records); n > 0 {
			end = max(end, s.Records[n-1].Offset)
		}
		return end >= c.last.offset
	})
}

// short says whether an answer to such a question ends before what was read does. It says nothing about what will be
// written there, so that the question stays.
func (c *cursor) short(p Part) bool { return c.verify && p.Stable < c.next }

// reached takes note of an answer that ends behind what was read. If it was to a question from there on, it has nothing
// to compare: the last record is to be asked for.
func (c *cursor) reached() (again bool) {
	again = c.verify && c.beyond
	c.beyond = false
	return again
}

// removed takes note of where the log begins. If it is behind the last record that was handed over, retention has
// removed that one, and there is nothing to compare.
func (c *cursor) removed(oldest int64) {
	if c.verify && oldest > c.last.offset {
		c.verify, c.last = false, mark{}
	}
}

func newCursor(oldest int64) *cursor { return &cursor{next: oldest, target: -1, end: -1} }

// caughtUp says whether all has been handed over that there was at the start.
func (c *cursor) caughtUp() bool { return c.target >= 0 && c.next >= c.target }

// atEnd says whether all has been handed over that there was at the last answer.
func (c *cursor) atEnd() bool { return c.end >= 0 && c.next >= c.end }

const (
	// missedFor and missedOften are how long, and how often, brokers must say that
	// what was read is not in the log before that is believed. One that was frozen, or
	// cut off from the others, says so when it wakes, for it does not know yet that
	// another leads and has gone on.
	missedFor   = 10 * time.Second
	missedOften = 3
	// laggedFor is how long the log may seem to end before what was read does. A new leader's high watermark lags until
	// all replicas in sync have fetched, or have dropped out of them (replica.lag.time.max.ms, 30 s by default); and for
	// as long as fewer are in sync than min.insync.replicas, though nothing is lost. So after that the leader is asked
	// for what comes next: it says offsetOutOfRange only if its log does not reach so far.
	laggedFor = time.Minute
)

// gone takes note of such an answer, and says whether it is believed after so long.
func (c *cursor) gone(now time.Time, after time.Duration) bool {
	if c.after != after {
		c.misses, c.after = 0, after // another kind of answer
	}
	if c.misses++; c.misses == 1 {
		c.missing = now
	}
	return c.misses >= missedOften && now.Sub(c.missing) >= after
}

// advance moves the cursor over an answer and gives what a reader of committed
// records may see of it.
//
// The position must get to the end even where no record sits: behind the last
// record are markers, aborted records, or, after compaction, batches that kept
// no record, or nothing at all. An answer without anything below the end may
// also be one to a request for many partitions in which this one's turn did not
// come; so then it is asked for alone. If that brings nothing either, there is
// nothing up to the end only where the client says that the broker sent no
// batch: some keep a batch without records to themselves, and behind it, in the
// next segment, the newest records may lie. So there is nothing at this very
// offset: one on. The same holds if it brings spans whose records all lie below
// the position, and the client does not tell where they end.
func (c *cursor) advance(p Part, alone bool) []wire.Record {
	c.missing, c.misses = time.Time{}, 0
	c.halved = max(c.halved-1, 0)
	compared := !c.verify || alone || c.compares(p)
	alone = alone && !c.verify // what it does not bring may lie behind what it does
	c.verify = !compared
	if c.target < 0 {
		c.target = p.Highest
	}
	before := c.next
	// What is not decided yet is for a later answer; nothing else lies before it.
	undecided := slices.IndexFunc(p.Spans, func(s Span) bool { return s.First >= p.Stable })
	if undecided >= 0 {
		p.Spans = p.Spans[:undecided]
	}
	recs := committed(p, c.next)
	for _, s := range p.Spans {
		c.next = max(c.next, s.First, s.Last+1)
		if n := len(s.Records); n > 0 {
			c.next = max(c.next, s.Records[n-1].Offset+1)
		}
	}
	if undecided >= 0 {
		c.next = max(c.next, p.Stable)
	}
	c.end, c.began = p.Stable, true
	stuck := c.next == before && c.next < c.end
	if stuck && alone && p.Empty {
		c.next = c.end
	} else if stuck && alone {
		c.next++
	}
	c.alone = !compared || stuck && c.next < c.end
	for i := len(recs) - 1; i >= 0; i-- {
		if r := recs[i]; !r.IsTakeover() {
			c.last = markOf(r)
			break
		}
	}
	return recs
}

// committed is what is to be seen of an answer from an offset on: no markers,
// and nothing of an aborted transaction. What its producer wrote from the first
// offset in the list on, up to its next abort marker, was aborted; a transaction
// begins with a span, so the first offsets of both tell.
func committed(p Part, from int64) []wire.Record {
	aborted := slices.SortedFunc(slices.Values(p.Aborted), func(a, b Aborted) int { return int(a.First - b.First) })
	open := map[int64]bool{} // producers inside an aborted transaction
	var recs []wire.Record
	for _, s := range p.Spans {
		for len(aborted) > 0 && aborted[0].First <= s.First {
			open[aborted[0].Producer] = true
			aborted = aborted[1:]
		}
		switch {
		case s.Marker && s.Abort:
			delete(open, s.Producer)
		case s.Marker, s.Transactional && open[s.Producer]:
		default:
			for _, r := range s.Records {
				if r.Offset >= from {
					recs = append(recs, r)
				}
			}
		}
	}
	return recs
}

// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What advance must know: bytes without records are passed, no bytes below the
// end are believed only of a partition that was asked for alone.
func TestCursorAdvance(t *testing.T) {
	for _, c := range []struct {
		name  string
		start int64
		got   Part
		want  Cursor
	}{
		{"records to the end", 3, Part{From: 3, Next: 7, End: 7, Bytes: 100}, Cursor{Next: 7, End: 7}},
		{"records, more to come", 3, Part{From: 3, Next: 5, End: 7, Bytes: 100}, Cursor{Next: 5, End: 7}},
		{"nothing new", 7, Part{From: 7, Next: 7, End: 7}, Cursor{Next: 7, End: 7}},
		{"markers only", 7, Part{From: 7, Next: 8, End: 8, Bytes: 78}, Cursor{Next: 8, End: 8}},
		{"no bytes, asked with others", 3, Part{From: 3, Next: 3, End: 7}, Cursor{Next: 3, End: 7, Alone: true}},
		{"no bytes, asked alone", 3, Part{From: 3, Next: 3, End: 7, Alone: true}, Cursor{Next: 7, End: 7}},
		{"the end went back in an election", 7, Part{From: 7, Next: 7, End: 6}, Cursor{Next: 7, End: 6}},
		{"removed before read", 3, Part{From: 3, Next: 9, Skipped: true}, Cursor{Next: 9, End: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := Cursor{Next: c.start, End: -1}
			at.Advance(c.got)
			if at != c.want {
				t.Errorf("got %+v, want %+v", at, c.want)
			}
		})
	}
}

func TestCursorsKnowWhereTheyAre(t *testing.T) {
	at := Cursors{0: {Next: 5, End: 5}, 1: {Next: 2, End: -1}}
	if at.AtEnd() {
		t.Error("an end that is not known was reached")
	}
	at[1].End = 2
	if !at.AtEnd() {
		t.Error("both are at their ends")
	}
	if !at.Reached(map[int32]int64{0: 5, 1: 1}) || at.Reached(map[int32]int64{0: 5, 1: 3}) {
		t.Error("reached does not compare positions")
	}
}

// The leader that wrote what was read last is known only where it was read.
func TestCursorsKnowWhoWrote(t *testing.T) {
	five, six := EpochOf(5), EpochOf(6)
	for name, c := range map[string]struct {
		got  Part
		want Epoch
	}{
		"more of it":                  {Part{From: 3, Next: 7, End: 7, Bytes: 100, wrote: six}, six},
		"nothing new":                 {Part{From: 3, Next: 3, End: 3}, five},
		"a batch of before epochs":    {Part{From: 3, Next: 7, End: 7, Bytes: 100, wrote: EpochOf(-1)}, Epoch{}},
		"nothing up to the end":       {Part{From: 3, Next: 3, End: 7, Alone: true}, Epoch{}},
		"removed before it was read":  {Part{From: 3, Next: 9, Skipped: true}, Epoch{}},
		"others had their turn first": {Part{From: 3, Next: 3, End: 7}, five},
	} {
		at := Cursor{Next: 3, End: -1, Wrote: five}
		if at.Advance(c.got); at.Wrote != c.want {
			t.Errorf("%s: %+v, want %+v", name, at.Wrote, c.want)
		}
	}
	at := Cursor{Wrote: five}
	if at.MarkLost(Part{Err: kerr.NotLeaderForPartition}); !at.Lost || at.Wrote != five {
		t.Errorf("an error that passes: %+v", at)
	}
	if at.MarkLost(Part{Err: kerr.OffsetNotAvailable, unsure: true}); at.Wrote != (Epoch{}) {
		t.Errorf("a leader that cannot say: %+v", at)
	}
}

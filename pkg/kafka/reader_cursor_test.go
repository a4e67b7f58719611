package kafka

import (
	"testing"
)

// What advance must know: bytes without records are passed, no bytes below the
// end are believed only of a partition that was asked for alone.
func TestCursorAdvance(t *testing.T) {
	for _, c := range []struct {
		name  string
		start int64
		got   fetchedPart
		want  cursor
	}{
		{"records to the end", 3, fetchedPart{from: 3, next: 7, end: 7, bytes: 100}, cursor{next: 7, end: 7}},
		{"records, more to come", 3, fetchedPart{from: 3, next: 5, end: 7, bytes: 100}, cursor{next: 5, end: 7}},
		{"nothing new", 7, fetchedPart{from: 7, next: 7, end: 7}, cursor{next: 7, end: 7}},
		{"markers only", 7, fetchedPart{from: 7, next: 8, end: 8, bytes: 78}, cursor{next: 8, end: 8}},
		{"no bytes, asked with others", 3, fetchedPart{from: 3, next: 3, end: 7}, cursor{next: 3, end: 7, alone: true}},
		{"no bytes, asked alone", 3, fetchedPart{from: 3, next: 3, end: 7, alone: true}, cursor{next: 7, end: 7}},
		{"the end went back in an election", 7, fetchedPart{from: 7, next: 7, end: 6}, cursor{next: 7, end: 6}},
		{"removed before read", 3, fetchedPart{from: 3, next: 9, skipped: true}, cursor{next: 9, end: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := cursor{next: c.start, end: -1}
			at.advance(c.got)
			if at != c.want {
				t.Errorf("got %+v, want %+v", at, c.want)
			}
		})
	}
}

func TestCursorsKnowWhereTheyAre(t *testing.T) {
	at := cursors{0: {next: 5, end: 5}, 1: {next: 2, end: -1}}
	if at.atEnd() {
		t.Error("an end that is not known was reached")
	}
	at[1].end = 2
	if !at.atEnd() {
		t.Error("both are at their ends")
	}
	if !at.reached(map[int32]int64{0: 5, 1: 1}) || at.reached(map[int32]int64{0: 5, 1: 3}) {
		t.Error("reached does not compare positions")
	}
}

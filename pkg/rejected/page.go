// SPDX-License-Identifier: Apache-2.0

package rejected

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Source has the records of the topic.
type Source interface {
	// Span is, for each partition, where the records since a time begin and where the next one will be.
	Span(ctx context.Context, since time.Time) (first, end map[int32]int64, err error)
	// Read hands over what a partition has from an offset up to another, which it does not have, in order. Where the
	// records are too large to be in memory at a time it hands over the last of them, and says from where on.
	Read(ctx context.Context, partition int32, from, to int64) (begin int64, recs []wire.Record, err error)
}

// MostRead is about how many records are read for one page.
const MostRead = 10_000

// Wanted says which rejections are wanted. What is empty lets all pass.
type Wanted struct {
	Project compute.Project // requests that name it
	Topic   string          // of the record, without the cell's prefix
	Record  string          // that one, as in requests/3/41
	Reason  compute.ReasonCode
}

// Takes says whether a rejection passes.
func (w Wanted) Takes(r rest.Rejected) bool {
	return (w.Project == "" || w.Project == r.Project && r.Topic == "requests") && (w.Topic == "" || w.Topic == r.Topic) &&
		(w.Record == "" || w.Record == r.Record) && (w.Reason == "" || w.Reason == r.Reason)
}

// Query asks for a page.
type Query struct {
	Wanted
	Since  time.Time
	Before map[int32]int64 // by partition: only what has a lower offset; nil: from the newest on
	Limit  int
}

// Page is what was found.
type Page struct {
	Items        []rest.Rejected // the newest first
	Before       map[int32]int64 // of the next page; nil: there is none
	Read         int             // records that were looked at
	Garbled      int             // of them that are no rejections
	StoppedEarly bool            // there may be others that are wanted, although the page has room
}

// line is what was read of a partition, and is not on the page yet.
type line struct {
	partition int32
	first     int64 // where the partition begins
	at        int64 // all from here on is on the page, or is not wanted
	begin     int64 // where what was read begins
	left      []found
}

type found struct {
	offset  int64
	item    rest.Rejected
	garbled bool
}

// ReadPage reads the newest rejections that are wanted.
func ReadPage(ctx context.Context, from Source, t wire.Topics, q Query) (Page, error) {
	first, end, err := from.Span(ctx, q.Since)
	if err != nil {
		return Page{}, err
	}
	var lines []*line
	for _, p := range slices.Sorted(maps.Keys(end)) {
		l := &line{partition: p, first: first[p], at: end[p]}
		if before, ok := q.Before[p]; ok {
			l.at = min(l.at, before)
		} else if q.Before != nil {
			l.at = l.first
		}
		if err := l.read(ctx, from, t, max(100, MostRead/int64(len(end)))); err != nil {
			return Page{}, err
		}
		lines = append(lines, l)
	}
	return merge(lines, q), nil
}

// read reads the last records of a partition, at most so many.
func (l *line) read(ctx context.Context, from Source, t wire.Topics, most int64) error {
	l.begin = max(l.first, l.at-most)
	if l.begin >= l.at {
		l.begin = l.at
		return nil
	}
	begin, recs, err := from.Read(ctx, l.partition, l.begin, l.at)
	if err != nil {
		return err
	}
	l.begin = begin
	for _, rec := range recs {
		j, err := wire.DecodeRejected(rec)
		l.left = append(l.left, found{rec.Offset, Show(t, j), err != nil})
	}
	return nil
}

// merge puts what was read of all partitions in the order of its times, as far as that is known.
func merge(lines []*line, q Query) Page {
	out := Page{Items: []rest.Rejected{}}
	for len(out.Items) < q.Limit {
		var newest *line
		for _, l := range lines {
			switch {
			case len(l.left) == 0 && l.begin > l.first: // what was not read of it may be newer than all others
				l.at, out.StoppedEarly = l.begin, true
				return out.until(lines)
			case len(l.left) == 0:
				l.at = l.begin
			case newest == nil || l.last().item.At.After(newest.last().item.At):
				newest = l
			}
		}
		if newest == nil {
			break
		}
		f := newest.last()
		newest.left, newest.at = newest.left[:len(newest.left)-1], f.offset
		if out.Read++; f.garbled {
			out.Garbled++
		} else if q.Takes(f.item) {
			out.Items = append(out.Items, f.item)
		}
	}
	return out.until(lines)
}

func (l *line) last() found { return l.left[len(l.left)-1] }

// until is the page behind which the next one goes on with what is left.
func (p Page) until(lines []*line) Page {
	before, more := map[int32]int64{}, false
	for _, l := range lines {
		before[l.partition] = l.at
		more = more || l.at > l.first
	}
	if more {
		p.Before = before
	}
	return p
}

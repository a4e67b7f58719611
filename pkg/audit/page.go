// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Wanted says which entries are wanted. What is empty lets all pass.
type Wanted struct {
	Project compute.Project
	Who     string // a caller's name or id
	What    string // an operation
	Target  string // as in "instance/<id>"
	Result  string // "ok", "refused", a status as in "403", or a problem's kind
}

var resultPattern = regexp.MustCompile(`^([1-5][0-9][0-9]|[a-z][a-z-]{0,40})?$`)

// Check refuses a result that no call can have.
func (w Wanted) Check() error {
	if !resultPattern.MatchString(w.Result) {
		return compute.Invalid("result", w.Result, "give ok, refused, a status as in 403, or a kind as in forbidden")
	}
	return nil
}

// Takes says whether an entry passes.
func (w Wanted) Takes(e compute.AuditEntry) bool {
	return (w.Project == "" || w.Project == e.Project) &&
		(w.Who == "" || w.Who == e.Who || w.Who == e.WhoID) &&
		(w.What == "" || w.What == e.Operation) && (w.Target == "" || w.Target == e.Target) && w.ended(e)
}

func (w Wanted) ended(e compute.AuditEntry) bool {
	refused := e.Status >= http.StatusBadRequest
	switch w.Result {
	case "":
		return true
	case "ok":
		return !refused
	case "refused":
		return refused
	}
	return w.Result == strconv.Itoa(int(e.Status)) || w.Result == e.Kind
}

// Source has the records of the audit.
type Source interface {
	// Span is where the records since a time begin (zero: those that there are), and where the next one will be.
	Span(ctx context.Context, since time.Time) (first, end int64, err error)
	// Read hands over the records from an offset up to another, which it does not have, in order. Where they are too
	// large to be in memory at a time it hands over the last of them, and says from where on.
	Read(ctx context.Context, from, to int64) (begin int64, recs []wire.Record, err error)
}

// What is read for one page ends at MostRead records, or with the part that passes MostBytes; atOnce is how many
// records are asked for at a time.
const (
	MostRead  = 10_000
	MostBytes = 64 << 20
	atOnce    = 2_500
)

// Query asks for a page.
type Query struct {
	Wanted
	Since  time.Time // zero: all that there are
	Until  time.Time // only what was written before; zero: up to now
	Before int64     // only what has a lower offset; negative: from the newest on
	Limit  int       // most entries
}

// Page is a part of the audit.
type Page struct {
	Entries []compute.AuditEntry // the newest first
	Next    int64                // Before of the next page; negative: there is none
	Read    int                  // records that were looked at
	Garbled int                  // of them that are no entries
}

// StoppedEarly says that there may be entries that are wanted behind those on the page, although it has room.
func (p Page) StoppedEarly(limit int) bool { return p.Next >= 0 && len(p.Entries) < limit }

// ReadPage reads backwards from the newest record, and no more than MostRead and about MostBytes of them.
func ReadPage(ctx context.Context, from Source, q Query) (Page, error) {
	return readPage(ctx, from, q, MostRead, atOnce)
}

func readPage(ctx context.Context, from Source, q Query, most, atOnce int64) (Page, error) {
	out := Page{Next: -1}
	first, end, err := from.Span(ctx, q.Since)
	if err != nil {
		return out, err
	}
	if !q.Until.IsZero() {
		behind, _, err := from.Span(ctx, q.Until)
		if err != nil {
			return out, err
		}
		end = min(end, behind)
	}
	if q.Before >= 0 {
		end = min(end, q.Before)
	}
	bytes := 0
	for lowest := max(first, end-most); end > lowest && bytes < MostBytes; {
		begin, recs, err := from.Read(ctx, max(lowest, end-atOnce), end)
		if err != nil {
			return out, err
		}
		for _, rec := range slices.Backward(recs) {
			bytes += len(rec.Key) + len(rec.Value)
			if out.take(rec, q.Wanted); len(out.Entries) == q.Limit {
				return out.until(first, rec.Offset), nil
			}
		}
		end = begin
	}
	return out.until(first, end), nil
}

// take looks at a record.
func (p *Page) take(rec wire.Record, w Wanted) {
	p.Read++
	switch e, err := wire.DecodeAudit(rec); {
	case err != nil:
		p.Garbled++
	case w.Takes(e):
		p.Entries = append(p.Entries, e)
	}
}

// until is the page after which the next one goes on at what is before an offset.
func (p Page) until(first, offset int64) Page {
	if offset > first {
		p.Next = offset
	}
	return p
}

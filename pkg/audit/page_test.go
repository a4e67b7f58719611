// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// trail is an audit in memory: records from an offset on, one a minute. nil is a record that is no entry.
type trail struct {
	first   int64
	entries []*compute.AuditEntry
	rubbish []byte // what is no entry
	fits    int64  // so many records at a time, if not 0
	reads   int    // records that were handed over
	fail    error
}

func (s *trail) end() int64 { return s.first + int64(len(s.entries)) }

func (s *trail) Span(_ context.Context, since time.Time) (first, end int64, err error) {
	if since.IsZero() {
		return s.first, s.end(), s.fail
	}
	return min(s.end(), max(s.first, s.first+int64(since.Sub(start)/time.Minute))), s.end(), s.fail
}

// Read hands over what fits, of large records few.
func (s *trail) Read(_ context.Context, from, to int64) (begin int64, recs []wire.Record, err error) {
	if s.fits > 0 {
		from = max(from, to-s.fits)
	}
	for at := max(from, s.first); at < min(to, s.end()); at++ {
		rec := wire.Record{Value: s.rubbish, Offset: at}
		if e := s.entries[at-s.first]; e != nil {
			rec = wire.EncodeAudit(*e)
			rec.Offset = at
		}
		recs = append(recs, rec)
	}
	s.reads += len(recs)
	return from, recs, s.fail
}

// add adds entries of one caller.
func (s *trail) add(n int, who string) {
	for range n {
		e := compute.AuditEntry{Request: fmt.Sprint(len(s.entries)), Who: who, At: start, Status: 200, Operation: "boot", Node: "n"}
		s.entries = append(s.entries, &e)
	}
}

// A page of these tests looks at few records.
const most, some = 20, 6

func requests(all []compute.AuditEntry) (out []string) {
	for _, e := range all {
		out = append(out, e.Request)
	}
	return out
}

// Whoever walks from page to page sees each entry that is wanted once, the newest first, and each page costs no more
// than it may.
func TestPagesAreTheTrail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &trail{
			first: rapid.Int64Range(0, 5).Draw(t, "first"), fits: rapid.Int64Range(0, 3).Draw(t, "fits"),
			rubbish: []byte("rubbish"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			n := rapid.SampledFrom([]int{0, 1, 3, some, some + 1, most, most + 7}).Draw(t, "n")
			s.add(n, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "who"))
			if rapid.Bool().Draw(t, "rubbish") {
				s.entries = append(s.entries, nil)
			}
		}
		skip := rapid.IntRange(0, len(s.entries)).Draw(t, "since")
		stop := len(s.entries)
		q := Query{
			Wanted: Wanted{Who: "a"}, Before: -1, Limit: rapid.SampledFrom([]int{1, 5, 30}).Draw(t, "limit"),
			Since: start.Add(time.Duration(skip) * time.Minute),
		}
		if rapid.Bool().Draw(t, "has an end") {
			stop = rapid.IntRange(skip, len(s.entries)).Draw(t, "until")
			q.Until = start.Add(time.Duration(stop) * time.Minute)
		}
		var want, got []string
		for _, e := range slices.Backward(s.entries[skip:stop]) {
			if e != nil && e.Who == "a" {
				want = append(want, e.Request)
			}
		}
		for pages := 0; ; pages++ {
			s.reads = 0
			p, err := readPage(t.Context(), s, q, most, some)
			if err != nil {
				t.Fatal(err)
			}
			if p.Read > most || s.reads > most || len(p.Entries) > q.Limit || pages > 1000 {
				t.Fatalf("page %d: %d entries of %d records, %d were read", pages, len(p.Entries), p.Read, s.reads)
			}
			if p.StoppedEarly(q.Limit) && p.Read < most {
				t.Fatalf("it stopped after %d", p.Read)
			}
			got = append(got, requests(p.Entries)...)
			if p.Next < 0 {
				break
			}
			q.Before = p.Next
			s.add(1, "a") // what comes meanwhile is on no page
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Large records end a page early, and the next goes on behind them.
func TestPageOfLargeRecords(t *testing.T) {
	const large = 1 << 20
	s := &trail{rubbish: make([]byte, large), fits: 10}
	s.add(1, "a")
	s.entries = append(s.entries, make([]*compute.AuditEntry, 3*MostBytes/large)...)
	q, pages := Query{Before: -1, Limit: 5}, 1
	for ; ; pages++ {
		s.reads = 0
		p, err := ReadPage(t.Context(), s, q)
		if err != nil {
			t.Fatal(err)
		}
		if s.reads > MostBytes/large+int(s.fits) {
			t.Errorf("page %d read %d records of 1 MiB", pages, s.reads)
		}
		if len(p.Entries) == 1 {
			break
		}
		if !p.StoppedEarly(q.Limit) {
			t.Fatalf("page %d is the last: %+v", pages, p)
		}
		q.Before = p.Next
	}
	if pages < 3 {
		t.Errorf("it was found on page %d", pages)
	}
}

func TestPageSaysWhatIsNone(t *testing.T) {
	s := &trail{entries: []*compute.AuditEntry{nil, nil}}
	p, err := ReadPage(t.Context(), s, Query{Before: -1, Limit: 5})
	if err != nil || p.Garbled != 2 || p.Next >= 0 || p.StoppedEarly(5) {
		t.Errorf("%+v, %v", p, err)
	}
	s.fail = errors.New("no")
	if _, err := ReadPage(t.Context(), s, Query{Before: -1, Limit: 5}); !errors.Is(err, s.fail) {
		t.Error(err)
	}
}

func TestWanted(t *testing.T) {
	e := compute.AuditEntry{
		Who: "token:ci", WhoID: "abc", Project: "web", Operation: "boot", Status: 403, Kind: "forbidden",
	}
	for f, want := range map[Wanted]bool{
		{}: true, {Project: "web"}: true, {Project: "other"}: false, {Who: "abc"}: true, {Who: "token:ci"}: true,
		{Who: "token"}: false, {What: "boot"}: true, {What: "delete-instance"}: false, {Result: "refused"}: true,
		{Result: "ok"}: false, {Result: "403"}: true, {Result: "404"}: false, {Result: "forbidden"}: true,
		{Result: "quota"}: false, {Who: "abc", Result: "ok"}: false,
	} {
		if got := f.Takes(e); got != want || f.Check() != nil {
			t.Errorf("%+v: %t, %v", f, got, f.Check())
		}
	}
	for _, bad := range []string{"4", "999", "Forbidden", "a b", "ok,refused"} {
		if (Wanted{Result: bad}).Check() == nil {
			t.Errorf("%q is a result", bad)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// trail is an audit in memory that begins at offset 5.
type trail struct {
	recs  []wire.Record
	since time.Time // that was asked for last
	fail  error
}

func (s *trail) Span(_ context.Context, since time.Time) (first, end int64, err error) {
	s.since = since
	return 5, 5 + int64(len(s.recs)), s.fail
}

func (s *trail) Read(_ context.Context, from, to int64) (int64, []wire.Record, error) {
	return from, s.recs[from-5 : to-5], nil
}

func (s *trail) add(n int, e compute.AuditEntry) {
	for range n {
		rec := wire.EncodeAudit(e)
		rec.Offset = 5 + int64(len(s.recs))
		s.recs = append(s.recs, rec)
	}
}

// trailedNode is a lockedNode that shows an audit: of two callers, one of them refused.
func trailedNode(t testing.TB) (*node, *trail) {
	s := &trail{}
	s.add(3, compute.AuditEntry{At: start, Who: "token:ci", Operation: "boot", Project: "own", Status: 202})
	s.add(1, compute.AuditEntry{At: start, Who: "token:x", Operation: "list-hosts", Status: 403,
		Kind: "forbidden", LeftOut: 7})
	n := lockedNode(t, func(c *Config) { c.Trail = s })
	n.as = n.token(auth.RoleAdmin, "")
	return n, s
}

func TestAdminsSeeTheAudit(t *testing.T) {
	n, s := trailedNode(t)
	ask := func(query string) rest.AuditPage {
		return into[rest.AuditPage](n.do("GET", "/v1/audit"+query, nil), 200)
	}
	page := ask("")
	if len(page.Items) != 4 || page.Read != 4 || page.Next != "" || page.StoppedEarly || !s.since.IsZero() {
		t.Errorf("%+v, since %s", page, s.since)
	}
	want := rest.AuditEntry{
		At: start, Who: "token:x", Operation: "list-hosts", Status: 403, Kind: "forbidden", LeftOut: 7,
	}
	equal(t, "the newest", want, page.Items[0])
	for query, count := range map[string]int{
		"?who=token:ci": 3, "?project=own": 3, "?operation=list-hosts": 1, "?result=refused": 1, "?result=ok": 3,
		"?result=403": 1, "?result=ok&who=token:x": 0,
	} {
		if page := ask(query); len(page.Items) != count || page.Read != 4 {
			t.Errorf("%s: %+v", query, page)
		}
	}
	page = ask("?limit=3&since=" + url.QueryEscape(start.Format(time.RFC3339)))
	if len(page.Items) != 3 || page.Next != "6" || page.StoppedEarly || !s.since.Equal(start) {
		t.Errorf("%+v, since %s", page, s.since)
	}
	if page = ask("?limit=3&marker=6"); len(page.Items) != 1 || page.Next != "" {
		t.Errorf("%+v", page)
	}
	s.add(audit.MostRead, compute.AuditEntry{At: start, Operation: "boot", Status: 202})
	if page = ask("?who=token:ci"); len(page.Items) > 0 || !page.StoppedEarly || page.Next != "9" ||
		page.Read != audit.MostRead {
		t.Errorf("%+v", page)
	}
}

func TestAuditIsRefused(t *testing.T) {
	n, s := trailedNode(t)
	for query, field := range map[string]string{
		"?marker=x": "marker", "?marker=-1": "marker", "?result=4": "result",
		"?since=yesterday": "since", "?limit=0": "limit",
	} {
		a := n.do("GET", "/v1/audit"+query, nil)
		if p := into[rest.Problem](a, a.status); a.status != 400 && a.status != 422 || p.Field != field {
			t.Errorf("%s: %d %+v", query, a.status, p)
		}
	}
	s.fail = &compute.Error{Kind: compute.KindForbidden, Message: "User:api may not Read topic audit"}
	p := n.do("GET", "/v1/audit", nil).refused(503, compute.KindUnavailable)
	if !strings.Contains(p.Remedy, "berth acl apply") {
		t.Errorf("%+v", p)
	}
	n.as = n.token(auth.RoleOperator, "")
	n.do("GET", "/v1/audit", nil).refused(403, compute.KindForbidden)
	n = lockedNode(t)
	n.as = n.token(auth.RoleAdmin, "")
	n.do("GET", "/v1/audit", nil).refused(409, compute.KindConflict)
}

// A node reads few pages at once, and a caller that goes away leaves its place. Callers of the cell do not wait for
// those of projects, nor the other way round.
func TestFewPagesAreReadAtOnce(t *testing.T) {
	n, _ := trailedNode(t)
	project, cell := t.Context(), auth.With(t.Context(), auth.Anonymous())
	reads := func(ctx context.Context) error {
		_, err := n.readAudit(ctx, audit.Query{Before: -1, Limit: 1})
		return err
	}
	for _, c := range []struct {
		places        chan struct{}
		waits, passes context.Context
	}{{n.projectPages, project, cell}, {n.pages, cell, project}} {
		for range auditPages {
			c.places <- struct{}{}
		}
		ctx, cancel := context.WithCancel(c.waits)
		cancel()
		if reads(ctx) == nil {
			t.Error("it is read, and as many are read as may be")
		}
		if err := reads(c.passes); err != nil {
			t.Errorf("others are held up: %v", err)
		}
		<-c.places
		if err := reads(c.waits); err != nil || len(c.places) != auditPages-1 {
			t.Errorf("%d are read; %v", len(c.places), err)
		}
	}
}

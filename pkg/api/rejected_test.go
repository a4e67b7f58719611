// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// refusals is what was refused, in memory, in one partition.
type refusals struct {
	recs []wire.Record
	fail error
}

func (r *refusals) Span(context.Context, time.Time) (first, end map[int32]int64, err error) {
	return map[int32]int64{0: 0}, map[int32]int64{0: int64(len(r.recs))}, r.fail
}

func (r *refusals) Read(_ context.Context, _ int32, from, to int64) (int64, []wire.Record, error) {
	return from, r.recs[from:to], nil
}

func (r *refusals) add(topic, key string, host compute.HostID, code compute.ReasonCode) {
	rec := wire.EncodeRejected(compute.Rejected{
		Topic: "test." + topic, Offset: 40 + int64(len(r.recs)), Key: []byte(key), Value: []byte("A SECRET"),
		At: start.Add(time.Duration(len(r.recs)) * time.Second),
		Reason: compute.Reason{
			Code: code, Host: host, Detail: "not of h1",
		},
	})
	rec.Offset = int64(len(r.recs))
	r.recs = append(r.recs, rec)
}

func TestRejected(t *testing.T) {
	kept := &refusals{}
	n := lockedNode(t, func(c *Config) { c.Rejected = kept })
	kept.add("requests", "own", "", compute.Malformed)
	kept.add("requests", "alien", "", compute.Malformed)
	kept.add("reports", "own", "h1", compute.Forged)
	kept.add("requests", "own", "h1", compute.ForeignProject)
	ask := func(query string) string {
		a := n.do("GET", "/v1/rejected?"+query, nil)
		if strings.Contains(string(a.body), "SECRET") {
			t.Errorf("what is in a record is shown: %s", a.body)
		}
		var records []string
		for _, r := range into[rest.RejectedPage](a, 200).Items {
			if r.Remedy == "" {
				t.Errorf("no remedy: %+v", r)
			}
			records = append(records, fmt.Sprint(r.Record, " ", r.Reason, " ", r.Project))
		}
		return strings.Join(records, ", ")
	}
	n.as = n.token(auth.RoleReader, "own")
	if got := ask("project=own"); got != "requests/0/43 ForeignProject own, requests/0/40 Malformed own" {
		t.Error(got)
	}
	a := n.do("GET", "/v1/rejected?project=own&limit=1", nil)
	page := into[rest.RejectedPage](a, 200)
	if page.Next != "0:3" || strings.Contains(string(a.body), `"h1"`) || strings.Contains(string(a.body), "of h1") {
		t.Errorf("%s", a.body)
	}
	if got := ask("project=own&marker=" + page.Next); got != "requests/0/40 Malformed own" {
		t.Error(got)
	}
	n.do("GET", "/v1/rejected?project=alien", nil).refused(403, compute.KindForbidden)
	n.do("GET", "/v1/rejected?project=*", nil).refused(403, compute.KindForbidden)
	n.do("GET", "/v1/rejected?project=own&marker=x", nil).refused(422, compute.KindInvalid)

	n.as = n.token(auth.RoleOperator, "")
	if got := ask("project=*"); strings.Count(got, ",") != 3 {
		t.Error(got)
	}
	for query, want := range map[string]string{
		"record=reports/0/42": "reports/0/42 Forged own", "topic=reports": "reports/0/42 Forged own",
		"reason=Forged": "reports/0/42 Forged own", "reason=Replayed": "",
	} {
		if got := ask("project=*&" + query); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	kept.fail = &compute.Error{Kind: compute.KindForbidden}
	p := n.do("GET", "/v1/rejected?project=*", nil).refused(503, compute.KindUnavailable)
	if !strings.Contains(p.Remedy, "berth acl apply --role api") {
		t.Errorf("%+v", p)
	}
}

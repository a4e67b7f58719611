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

// diary is an audit in memory, with the times of the log.
type diary struct {
	recs []wire.Record
	fail error
}

func (d *diary) Span(_ context.Context, since time.Time) (first, end int64, err error) {
	for first < int64(len(d.recs)) && d.recs[first].Time.Before(since) {
		first++
	}
	return first, int64(len(d.recs)), d.fail
}

func (d *diary) Read(_ context.Context, from, to int64) (int64, []wire.Record, error) {
	return from, d.recs[from:to], nil
}

func (d *diary) add(at time.Time, who, what string, target compute.InstanceID, status int32) {
	rec := wire.EncodeAudit(compute.AuditEntry{
		At: at, Who: who, Operation: what, Project: "own", Target: "instance/" + string(target), Status: status,
		Request: "r", Remote: "10.0.0.1",
	})
	rec.Offset, rec.Time = int64(len(d.recs)), at
	d.recs = append(d.recs, rec)
}

func TestStory(t *testing.T) {
	d := &diary{}
	n := lockedNode(t, func(c *Config) { c.Trail = d })
	day := func(h int) time.Time { return start.Add(time.Duration(h) * time.Hour) }
	n.has(instance(id1, "web", compute.StateDeleted, func(i *compute.Instance) {
		i.Project, i.Version, i.Host, i.Attempt = "own", 9, "h1", 2
		i.Failures = []compute.Failure{{Host: "h2", Attempt: 1, Message: "no disk on h2", At: day(1)}}
		i.StartingAt, i.ActiveAt, i.EndedAt = day(2), day(3), day(30)
		i.Answer = &compute.PowerAnswer{Op: compute.OpStop, At: day(4), Failed: "h1 is busy"}
		i.Reason = &compute.Reason{Code: compute.Cancelled}
	}))
	d.add(day(0), "token:ci", "boot", id1, 202)
	d.add(day(0), "token:ci", "boot", id2, 202)
	d.add(day(4).Add(-time.Second), "token:ann", "stop-instance", id1, 202)
	d.add(day(5), "token:eve", "delete-instance", id1, 403)
	d.add(day(29), "token:ann", "delete-instance", id1, 202)
	d.add(day(50), "token:ann", "delete-instance", id1, 202) // when it was gone already
	story := func() (string, rest.Story, string) {
		a := n.do("GET", "/v1/instances/"+string(id1)+"/events?project=own", nil)
		s := into[rest.Story](a, 200)
		var lines []string
		for _, i := range s.Items {
			lines = append(lines, strings.TrimSpace(fmt.Sprint(i.What, " ", i.Who)))
		}
		return strings.Join(lines, ", "), s, string(a.body)
	}
	n.as = n.token(auth.RoleReader, "own")
	got, s, body := story()
	want := "accepted, boot token:ci, admitted, attempt-failed, granted, active, stop-instance token:ann, " +
		"power-answered, delete-instance token:ann, deleted"
	if got != want || s.Asked != "complete" || s.Name != "web" {
		t.Errorf("%s\nwant %s\n%+v", got, want, s)
	}
	if strings.Contains(body, "10.0.0.1") || strings.Contains(body, `h1`) || strings.Contains(body, "disk on h2") {
		t.Errorf("it shows more than a project may see: %s", body)
	}
	n.as = n.token(auth.RoleOperator, "")
	if got, _, body := story(); !strings.Contains(got, "delete-instance token:eve") ||
		!strings.Contains(body, "no disk on h2") {
		t.Errorf("to an operator: %s %s", got, body)
	}
	for range 10_001 {
		d.add(day(50), "token:x", "boot", id3, 202)
	}
	n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) { i.Project, i.Version = "own", 10 }))
	if got, s, _ := story(); s.Asked != "partly" || !strings.Contains(got, "boot token:ci") {
		t.Errorf("%s: %s", s.Asked, got)
	}
	d.fail = &compute.Error{Kind: compute.KindForbidden}
	n.do("GET", "/v1/instances/"+string(id1)+"/events?project=own", nil).refused(503, compute.KindUnavailable)

	open := newNode(t)
	open.has(instance(id1, "web", compute.StateQueued))
	a := into[rest.Story](open.do("GET", "/v1/instances/"+string(id1)+"/events", nil), 200)
	if a.Asked != "off" || len(a.Items) != 2 {
		t.Errorf("%+v", a)
	}
}

// TestStoryOfASet: the audit has one entry for a whole set, under the first of it, and one for a reservation. Each part
// and each placeholder tells of it.
func TestStoryOfASet(t *testing.T) {
	d := &diary{}
	n := lockedNode(t, func(c *Config) { c.Trail = d })
	add := func(at time.Time, what, target string) {
		rec := wire.EncodeAudit(compute.AuditEntry{
			At: at, Who: "token:ci", Operation: what, Project: "own", Target: target, Status: 202, Request: "r",
		})
		rec.Offset, rec.Time = int64(len(d.recs)), at
		d.recs = append(d.recs, rec)
	}
	add(start, "boot-set", "instance/"+string(id1))
	add(start, "reserve", "reservation/nightly")
	add(start.Add(time.Second), "stop-instance", "instance/"+string(id1))
	add(start.Add(time.Hour), "delete-reservation", "reservation/nightly")
	own := func(i *compute.Instance) { i.Project = "own" }
	n.has(
		instance(id2, "b", compute.StateActive, own, func(i *compute.Instance) {
			i.Boot.InSet(compute.Set{ID: id1, Size: 2})
		}),
		instance(id3, "p", compute.StateQueued, own, func(i *compute.Instance) {
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "nightly", Until: start.Add(2 * time.Hour)})
		}),
	)
	n.as = n.token(auth.RoleReader, "own")
	for id, want := range map[compute.InstanceID]string{id2: "boot-set", id3: "reserve delete-reservation"} {
		s := into[rest.Story](n.do("GET", path(id)+"/events?project=own", nil), 200)
		var asks []string
		for _, i := range s.Items {
			if i.Source == "audit" {
				asks = append(asks, i.What)
			}
		}
		if got := strings.Join(asks, " "); got != want || s.Asked != "complete" {
			t.Errorf("of %s: %s, %s", id, got, s.Asked)
		}
	}
}

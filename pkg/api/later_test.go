// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// inALaterSchema is a record as a later Berth would write it.
func inALaterSchema(now wire.Record) wire.Record {
	later := now
	later.Headers = nil
	for _, h := range now.Headers {
		if h.Key == wire.HeaderSchema {
			h.Value = fmt.Append(nil, wire.Schema+1)
		}
		later.Headers = append(later.Headers, h)
	}
	return later
}

// TestGroupWithMembersOfALaterVersion: what only a later Berth can read may be a member of any group of its project.
func TestGroupWithMembersOfALaterVersion(t *testing.T) {
	n := newNode(t)
	web := rest.Group{Name: "web", GroupRule: rest.GroupRule{Policy: "affinity"}}
	for _, project := range []string{"default", "other"} {
		into[rest.GroupView](n.do("POST", "/v1/groups?project="+project, web), 200)
	}
	later := inALaterSchema(wire.EncodeInstance(instance(id1, "a", compute.StateActive)))
	n.Instances([]wire.Record{later}, true)
	if p := n.do("DELETE", "/v1/groups/web", nil).refused(503, compute.KindUnavailable); p.Field != "group" {
		t.Errorf("%+v", p)
	}
	into[rest.GroupView](n.do("GET", "/v1/groups/web", nil), 200)
	n.do("DELETE", "/v1/groups/none", nil).refused(404, compute.KindNotFound)
	into[rest.GroupRule](n.do("DELETE", "/v1/groups/web?project=other", nil), 200)
	n.has(instance(id2, "b", compute.StateActive, func(i *compute.Instance) { i.Boot.Rules = compute.InGroup("web") }))
	n.do("DELETE", "/v1/groups/web", nil).refused(409, compute.KindConflict)
	n.Instances([]wire.Record{wire.Tombstone(wire.KeyInstance("default", id2)), wire.Tombstone(later.Key)}, true)
	into[rest.GroupRule](n.do("DELETE", "/v1/groups/web", nil), 200)
}

// TestInstancesOfALaterVersion: what only a later Berth can read is not shown as it was before, nor as
// if it were not there.
func TestInstancesOfALaterVersion(t *testing.T) {
	n := newNode(t)
	n.offer()
	now := wire.EncodeInstance(instance(id1, "web", compute.StateActive))
	later := inALaterSchema(now)
	n.Instances([]wire.Record{now, wire.EncodeInstance(instance(id2, "db", compute.StateActive)), later}, true)
	trouble := func(want int) {
		t.Helper()
		got := into[struct{ Trouble []string }](n.do("GET", "/readyz", nil), 200).Trouble
		if len(got) != want || want > 0 && !strings.Contains(got[0], "1 instances") {
			t.Errorf("trouble: %q", got)
		}
	}
	trouble(1)
	n.do("GET", "/v1/instances/"+string(id1), nil).refused(503, compute.KindUnavailable)
	n.do("DELETE", "/v1/instances/"+string(id1), nil).refused(503, compute.KindUnavailable)
	n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}).refused(503, compute.KindUnavailable)
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("a refusal published %+v", recs)
	}
	n.Requests(
		[]wire.Record{
			wire.EncodeRequest(compute.Request{
				Op: compute.OpBoot, Project: "default", Instance: id1, Boot: &compute.Boot{Flavor: "m1.small"},
			}),
		},
		true,
	)
	n.do("GET", "/v1/instances/"+string(id1), nil).refused(503, compute.KindUnavailable)
	n.show(id2)
	n.Instances([]wire.Record{now}, true) // by this version again
	n.show(id1)
	n.Instances([]wire.Record{later, wire.Tombstone(now.Key)}, true)
	n.do("GET", "/v1/instances/"+string(id1), nil).refused(404, compute.KindNotFound)
	trouble(0)
}

// TestBootThatALaterVersionHasWrittenAlready: what a node has just accepted is written by a later conductor
// before the node answers. It is no less accepted: a caller that is told otherwise boots another machine. Under a
// key of the caller's own the node cannot say which project's request it is, and a repetition elsewhere does no harm.
func TestBootThatALaterVersionHasWrittenAlready(t *testing.T) {
	n := newNode(t)
	n.offer()
	writes := func(recs []wire.Record) {
		for _, rec := range recs {
			if req, err := wire.DecodeRequest(rec); err == nil && req.Op == compute.OpBoot {
				i := instance(req.Instance, "web", compute.StateQueued)
				n.Instances([]wire.Record{wire.EncodeInstance(i).InSchema(wire.Schema + 1)}, true)
			}
		}
	}
	n.after = writes
	got := into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}), 202)
	if got.ID == "" || got.State != "accepted" {
		t.Errorf("%+v", got)
	}
	n.do("GET", "/v1/instances/"+string(got.ID), nil).refused(503, compute.KindUnavailable)

	n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}).refused(503, compute.KindUnavailable)
	if recs := n.published(); len(recs) != 2 {
		t.Errorf("%d requests are published", len(recs))
	}
	n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}).refused(503, compute.KindUnavailable)
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("a repetition is published: %+v", recs)
	}
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// appended is a record that a broker appended then.
func appended(rec wire.Record, at time.Time) wire.Record {
	rec.Time, rec.Logged = at, true
	return rec
}

// TestHostsOfBefore: what hosts said long before this node began is not news. One of which the log heard last an hour
// ago is silent at once, and one that goes on to speak is not.
func TestHostsOfBefore(t *testing.T) {
	n := unreadNode(t)
	n.config.Now = func() time.Time { return start }
	n.Instances(nil, true)
	n.Requests(nil, true)
	n.catalog.Apply(nil, true)
	n.Queues(nil, true)
	n.Hosts([]wire.Record{
		appended(wire.EncodeBeacon(offering("gone", 8)), start.Add(-time.Hour)),
		appended(wire.EncodeBeacon(offering("alive", 8)), start.Add(-time.Second)),
	}, true)
	n.TokenRecords(nil, true)
	n.offer()
	n.has(instance(id1, "w", compute.StateActive, func(i *compute.Instance) { i.Host = "gone" }))
	silent := func(what string, want map[string]uint32) {
		t.Helper()
		p := into[rest.Placement](n.do("GET", "/v1/explain?flavor=m1.small", nil), 200)
		equal(t, what, want, p.Hosts.By)
		if p.Hosts.Oldest > 60 {
			t.Errorf("%s: a beacon of %gs ago counts", what, p.Hosts.Oldest)
		}
	}
	silent("after the start", map[string]uint32{"silent": 1, "fits": 1})
	if e := into[rest.Explanation](n.do("GET", path(id1)+"/explain", nil), 200); e.State != "unknown" ||
		!strings.Contains(e.Summary, "is silent") {
		t.Errorf("what it has: %+v", e)
	}
	if h := into[rest.HostView](n.do("GET", "/v1/hosts/gone", nil), 200); h.State != "silent" ||
		time.Duration(h.HeardFor) < 59*time.Minute {
		t.Errorf("%+v", h)
	}
	n.Hosts([]wire.Record{appended(wire.EncodeBeacon(offering("gone", 8)), start.Add(-time.Hour))}, true)
	silent("it speaks, by the clock of a broker that is wrong", map[string]uint32{"fits": 2})
}

// TestAgesAreOfTheLog: how long a request waits is told by the time of the log, whatever clock this node, or the writer
// of the request, has.
func TestAgesAreOfTheLog(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"fast": 3 * time.Hour, "slow": -3 * time.Hour, "right": 0} {
		n := newNode(t)
		n.config.Now = func() time.Time { return start.Add(wrong) }
		n.offer()
		request := func(id compute.InstanceID, at time.Time) {
			n.Requests([]wire.Record{appended(wire.EncodeRequest(compute.Request{
				Project: "default", Instance: id, Op: compute.OpBoot, Boot: &compute.Boot{Flavor: "m1.small"},
				At: start.Add(-wrong), // its publisher's clock is wrong the other way
			}), at)}, true)
		}
		says := func(id compute.InstanceID, want string) {
			t.Helper()
			e := into[rest.Explanation](n.do("GET", path(id)+"/explain", nil), 200)
			if !strings.Contains(e.Summary, want) {
				t.Errorf("%s: %s, want %s", name, e.Summary, want)
			}
		}
		request(id1, start.Add(-5*time.Minute))
		request(id2, start)
		says(id1, "no conductor has read it for 5m")
		says(id2, "a conductor decides about it within seconds")
		into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{ID: id3, Flavor: "m1.small"}), 202)
		says(id3, "a conductor decides about it within seconds")
		n.has(instance(id1, "w", compute.StateActive, func(i *compute.Instance) { i.ActiveAt = start.Add(-time.Hour) }))
		says(id1, "since 1h0m")
	}
}

// TestEventsAreOfTheLogsTime: what is too old to be told is so by the time of the log, whatever clock this node has.
func TestEventsAreOfTheLogsTime(t *testing.T) {
	at := wire.Partition("default", 4)
	for name, c := range map[string]struct {
		ahead time.Duration // this node's clock
		since []string      // of what it read when it began: the whole cell is of the last hour, but for what is older
	}{
		"right":       {0, []string{"gap forgotten", "change db queued"}},
		"an hour off": {time.Hour, []string{"gap forgotten", "change db queued"}},
		"of 1970":     {time.Unix(0, 0).Sub(start), []string{"gap forgotten", "change db queued"}},
		// The log may have slept for so long: then more is forgotten than need be, and nothing in silence.
		"a day ahead": {24 * time.Hour, []string{"gap forgotten"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := unreadNode(t)
			n.config.Now = func() time.Time { return start.Add(c.ahead) }
			var l log
			l.write(id1, "web", compute.StateDeleted)
			l.write(id2, "db", compute.StateQueued)
			l.write(id3, "new", compute.StateQueued)
			n.Instances([]wire.Record{ // these come first: what else there is tells the time later
				appended(l.recs[0], start.Add(-20*time.Hour)), appended(l.recs[1], start.Add(-time.Hour)),
			}, true)
			n.Requests(nil, true)
			n.catalog.Apply(nil, true)
			n.Queues(nil, true)
			n.TokenRecords(nil, true)
			n.Hosts([]wire.Record{appended(wire.EncodeBeacon(offering("h1", 8)), start)}, true)
			h := n.hear(n.serve(), "", fmt.Sprintf("%d:0", at))
			h.hears(c.since...)
			n.Instances([]wire.Record{appended(l.recs[2], start)}, true)
			h.hears("change new queued")
			n.hear(n.serve(), "", fmt.Sprintf("%d:2", at)).hears("change new queued")
		})
	}
}

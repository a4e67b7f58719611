// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// placeholder is one of a reservation "nightly".
func placeholder(id compute.InstanceID, s compute.State, from, until time.Time, taker compute.InstanceID) compute.Instance {
	return instance(id, "nightly-1", s, func(i *compute.Instance) {
		if s.Ended() {
			i.EndedAt = until
		}
		i.Boot.AsPlaceholder(compute.Placeholder{Of: "nightly", Size: 1, From: from, Until: until, Taker: taker})
	})
}

// taker is an instance that has the room of placeholder id1, or waits for it.
func taker(id compute.InstanceID, s compute.State) compute.Instance {
	return instance(id, "job", s, func(i *compute.Instance) {
		i.Boot.Reserving("nightly")
		i.Boot.Takes(compute.InPlaceholder{ID: id1, Attempt: 1})
	})
}

// TestReservationNameAgain: a name that was used before is that of the new reservation, whichever node accepted that.
func TestReservationNameAgain(t *testing.T) {
	for name, ask := range map[string]func(*node){
		"show": func(n *node) {
			if got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200); got.State != "accepted" {
				t.Errorf("it is %s", got.State)
			}
		},
		"boot": func(n *node) {
			into[rest.Instance](n.do("POST", "/v1/instances", `{"flavor":"m1.small","reservation":"nightly"}`), 202)
		},
		"delete": func(n *node) {
			into[rest.ReservationView](n.do("DELETE", "/v1/reservations/nightly", nil), 202)
			if req := n.sentOne(); req.Op != compute.OpDelete || req.Instance != id2 {
				t.Errorf("published %+v", req)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.offer()
			n.has(placeholder(id1, compute.StateDeleted, start.Add(-time.Hour), start, ""))
			v := compute.Reserve{
				Name: "nightly", From: start, Until: start.Add(2 * time.Hour), Boot: compute.Boot{Flavor: "m1.small"},
				Instances: []compute.InstanceID{id2},
			}
			n.sync = func() error {
				n.Requests([]wire.Record{wire.EncodeRequest(compute.Request{
					Op: compute.OpReserve, Project: "default", Instance: id2, Reserve: &v, At: start,
				}).To(n.config.Topics.Requests(), 0)}, true)
				return nil
			}
			n.published()
			ask(n)
		})
	}
}

// TestReservationTheSame: a request that is repeated is answered with what is there, another one is refused.
func TestReservationTheSame(t *testing.T) {
	now := time.Now().UTC().Round(0)
	for name, c := range map[string]struct {
		from, until time.Duration // of what is there, from now on
		ask         string
		status      int
	}{
		"again":             {-time.Minute, 2*time.Hour - time.Minute, `"for":"2h"`, 202},
		"moved by little":   {-time.Minute, 2*time.Hour - time.Minute - time.Second, `"for":"2h"`, 202},
		"longer":            {-time.Minute, 2*time.Hour - time.Minute, `"for":"80h"`, 409},
		"shorter":           {-time.Minute, 2*time.Hour - time.Minute, `"for":"1h"`, 409},
		"more":              {-time.Minute, 2*time.Hour - time.Minute, `"for":"2h","count":2`, 409},
		"it begins later":   {time.Hour, 3 * time.Hour, `"for":"2h"`, 409},
		"at a time":         {time.Hour, 3 * time.Hour, `"for":"2h","from":"1h"`, 202},
		"at a time, longer": {time.Hour, 3 * time.Hour, `"for":"3h","from":"1h"`, 409},
		"at another time":   {time.Hour, 3 * time.Hour, `"for":"2h","from":"2h"`, 409},
		"at an earlier one": {time.Hour, 3 * time.Hour, `"for":"150m","from":"30m"`, 409},
		"passed meanwhile":  {-time.Minute, 2*time.Hour - 2*time.Minute, `"for":"2h","from":"-2m"`, 202},
		"after it began":    {-time.Hour, time.Hour, `"for":"2h","from":"-1m"`, 409},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.offer()
			n.has(placeholder(id1, compute.StateActive, now.Add(c.from), now.Add(c.until), ""))
			ask := c.ask
			if before, from, given := strings.Cut(ask, `"from":"`); given {
				long, _ := time.ParseDuration(strings.TrimSuffix(from, `"`))
				ask = fmt.Sprintf(`%s"from":%q`, before, now.Add(long).Format(time.RFC3339Nano))
			}
			a := n.do("POST", "/v1/reservations", `{"name":"nightly","flavor":"m1.small",`+ask+`}`)
			if sent := n.published(); a.status != c.status || len(sent) > 0 {
				t.Errorf("%d %s, published %+v", a.status, a.body, sent)
			}
		})
	}
}

// TestReservationEndsInPart: what is done once in part is not refused as if nothing was.
func TestReservationEndsInPart(t *testing.T) {
	n := newNode(t)
	until := start.Add(time.Hour)
	n.has(placeholder(id1, compute.StateActive, start, until, ""), placeholder(id2, compute.StateActive, start, until, ""))
	n.published()
	n.fail = wire.ErrFull
	n.do("DELETE", "/v1/reservations/nightly", nil).refused(429, compute.KindUnavailable)
	n.fail = nil
	n.after = func([]wire.Record) { n.fail = wire.ErrFull }
	p := n.do("DELETE", "/v1/reservations/nightly", nil).refused(504, compute.KindTimeout)
	if p.Value != "nightly" || !strings.Contains(p.Message, "1 of its 2") || len(n.published()) != 1 {
		t.Errorf("%+v", p)
	}
	n.fail, n.after = nil, nil
	into[rest.ReservationView](n.do("DELETE", "/v1/reservations/nightly", nil), 202)
	if all := n.published(); len(all) != 2 {
		t.Errorf("repeated: %v", all)
	}
}

// TestReservationEndsFreeFirst: what waits in one that is taken finds no other one to go on in.
func TestReservationEndsFreeFirst(t *testing.T) {
	n := newNode(t)
	until := start.Add(time.Hour)
	n.has(placeholder(id1, compute.StateActive, start, until, id3), placeholder(id2, compute.StateActive, start, until, ""),
		taker(id3, compute.StateQueued))
	n.published()
	into[rest.ReservationView](n.do("DELETE", "/v1/reservations/nightly", nil), 202)
	var ended []compute.InstanceID
	for _, rec := range n.published() {
		req, err := wire.DecodeRequest(rec)
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, req.Instance)
	}
	if !slices.Equal(ended, []compute.InstanceID{id2, id1}) {
		t.Errorf("ended in this order: %v", ended)
	}
}

// TestReservationIsWhole: while its records are read, one that the conductor moved to a later beginning has all of its
// placeholders, and none of the one before.
func TestReservationIsWhole(t *testing.T) {
	n := newNode(t)
	until := start.Add(time.Hour)
	asked := compute.Request{Op: compute.OpReserve, Project: "default", Instance: id1, At: start, Reserve: &compute.Reserve{
		Name: "nightly", From: start.Add(-time.Minute), Until: until, Boot: compute.Boot{Flavor: "m1.small"},
		Instances: []compute.InstanceID{id1, id2},
	}}
	n.Requests([]wire.Record{wire.EncodeRequest(asked).To(n.config.Topics.Requests(), 0)}, true)
	first := placeholder(id1, compute.StateQueued, start, until, "")
	before := placeholder(id3, compute.StateDeleted, start, until, "")
	first.Boot.Rules.Placeholder.Size, before.Boot.Rules.Placeholder.Size = 2, 2
	before.EndedAt = start.Add(-time.Minute)
	n.has(first, before)
	got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
	if len(got.Placeholders) != 2 || got.Placeholders[0].ID != id1 || got.Placeholders[1].ID != id2 {
		t.Errorf("%+v", got)
	}
}

// TestPlaceholderHasNoMachine: it cannot be stopped, nor be called otherwise.
func TestPlaceholderHasNoMachine(t *testing.T) {
	n := newNode(t)
	n.has(placeholder(id1, compute.StateActive, start, start.Add(time.Hour), ""))
	for _, ask := range [][3]string{
		{"POST", "/stop", ""}, {"POST", "/start", ""}, {"POST", "/reboot", ""},
		{"PATCH", "", `{"name":"x"}`}, {"PATCH", "", `{"metadata":{"a":"b"}}`},
	} {
		p := n.do(ask[0], path(id1)+ask[1], ask[2]).refused(409, compute.KindConflict)
		if !strings.Contains(p.Detail, "placeholder of reservation nightly") || p.Remedy == "" {
			t.Errorf("%v: %+v", ask, p)
		}
	}
	if sent := n.published(); len(sent) > 0 {
		t.Errorf("published %+v", sent)
	}
}

// TestHeldIsHeld: of a host that is silent nobody knows what it holds.
func TestHeldIsHeld(t *testing.T) {
	n := newNode(t)
	n.has(placeholder(id1, compute.StateActive, start, start.Add(time.Hour), id2), taker(id2, compute.StateActive))
	n.hears(compute.Beacon{Host: "h1", At: time.Now()})
	show := func(want rest.ReservationView) {
		t.Helper()
		got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
		if got.State != want.State || got.Held != want.Held || got.Taken != want.Taken || got.Started != want.Started {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	show(rest.ReservationView{State: "held", Held: 1, Taken: 1, Started: 1})
	n.views.hosts.put(&compute.Beacon{Host: "h1"}, true, time.Now().Add(-time.Hour), time.Time{})
	show(rest.ReservationView{State: "waiting", Taken: 1, Started: 1})
}

// TestHeldIsWhole: a reservation of which a placeholder has ended, or ends, is not held, and says so.
func TestHeldIsWhole(t *testing.T) {
	until := start.Add(time.Hour)
	of := func(id compute.InstanceID, s compute.State) compute.Instance {
		i := placeholder(id, s, start, until, "")
		i.Boot.Rules.Placeholder.Size = 4
		if s == compute.StateDeleted {
			i.Reason = &compute.Reason{Code: compute.Cancelled}
		}
		return i
	}
	const active, queued = compute.StateActive, compute.StateQueued
	const deleting, deleted = compute.StateDeleting, compute.StateDeleted
	for name, c := range map[string]struct {
		last   []compute.State // of the last of the four; none: it is not known, or no more
		others compute.State
		state  string
		says   string // empty: no reason
	}{
		"all are held":             {[]compute.State{active}, active, "held", ""},
		"one has ended":            {[]compute.State{deleted}, active, "waiting", "1 of its 4 placeholders have ended"},
		"one ends":                 {[]compute.State{deleting}, active, "waiting", "1 of its 4 placeholders have ended"},
		"one has ended, one waits": {[]compute.State{deleted}, queued, "waiting", "1 of its 4 placeholders have ended"},
		"one waits":                {[]compute.State{queued}, active, "waiting", ""},
		"one is not known":         {nil, active, "waiting", ""},
		"all have ended":           {[]compute.State{deleted}, deleted, "ended", "deleted before it ran"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.hears(compute.Beacon{Host: "h1", At: time.Now()})
			n.has(of(id1, c.others), of(id2, c.others), of(id3, c.others))
			for _, s := range c.last {
				n.has(of(id4, s))
			}
			got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
			said := ""
			if got.Reason != nil {
				said = got.Reason.Message
			}
			if got.State != c.state || (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
				t.Errorf("%s: %q, %+v", got.State, said, got)
			}
		})
	}
}

// TestMadeAgainIsHeld: a reservation that is made again while placeholders of the one before end is held by its own.
func TestMadeAgainIsHeld(t *testing.T) {
	n := newNode(t)
	n.hears(compute.Beacon{Host: "h1", At: time.Now()})
	of := func(id compute.InstanceID, s compute.State, accepted time.Time) compute.Instance {
		i := placeholder(id, s, start, start.Add(time.Hour), "")
		i.Boot.Rules.Placeholder.Size, i.AcceptedAt = 2, accepted
		return i
	}
	again := start.Add(time.Minute)
	n.has(of(id1, compute.StateDeleting, start), of(id2, compute.StateDeleting, start))
	n.has(of(id3, compute.StateActive, again), of(id4, compute.StateQueued, again))
	got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
	if got.State != "waiting" || got.Reason != nil {
		t.Errorf("%q, %+v", got.State, got.Reason)
	}
}

// TestStarted: what has been on a host goes on when its reservation ends, what has not ends with it.
func TestStarted(t *testing.T) {
	for name, c := range map[string]struct {
		is   compute.Instance
		want int
	}{
		"waits":       {taker(id2, compute.StateQueued), 0},
		"starts":      {taker(id2, compute.StateStarting), 1},
		"runs":        {taker(id2, compute.StateActive), 1},
		"built again": {func() compute.Instance { i := taker(id2, compute.StateQueued); i.ActiveAt = start; return i }(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.has(placeholder(id1, compute.StateActive, start, start.Add(time.Hour), id2), c.is)
			got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
			if got.Taken != 1 || got.Started != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestPlaceholdersAreFoundByTheirIDs: a name means machines; a placeholder is called like those that are booted into it.
func TestPlaceholdersAreFoundByTheirIDs(t *testing.T) {
	n := newNode(t)
	same := taker(id2, compute.StateActive)
	same.Boot.Name = "nightly-1"
	n.has(placeholder(id1, compute.StateActive, start, start.Add(time.Hour), id2), same)
	for query, want := range map[string]string{
		"ref=nightly-1": string(id2), "ref=night": string(id2), "ref=" + string(id1): string(id1), "ref=1111": string(id1),
		"ref=nightly-1&placeholders=true": string(id1) + string(id2), "ref=night&placeholders=true": string(id1) + string(id2),
		"name=nightly-1": string(id2), "id=" + string(id1): string(id1),
	} {
		var got string
		for _, i := range into[rest.Instances](n.do("GET", "/v1/instances?"+query, nil), 200).Items {
			got += string(i.ID)
		}
		if got != want {
			t.Errorf("%s finds %s, want %s", query, got, want)
		}
	}
}

// TestWhyPlaceholdersWait: beside room there is more that a placeholder may wait for.
func TestWhyPlaceholdersWait(t *testing.T) {
	until := time.Now().Add(2 * time.Hour)
	waits := func(change func(*compute.Instance)) compute.Instance {
		i := placeholder(id1, compute.StateQueued, start, until, "")
		change(&i)
		return i
	}
	reads := func(h compute.HostID, s compute.Schema) compute.Beacon {
		b := offering(h, 0)
		b.Reads = s
		return b
	}
	for name, c := range map[string]struct {
		placeholder compute.Instance
		host        compute.Beacon
		code        compute.ReasonCode
		says        string // in the reason and in the explanation
	}{
		"room":          {waits(func(*compute.Instance) {}), reads("h1", wire.SchemaReserved), compute.NoEligibleHost, ""},
		"an old agent":  {waits(func(*compute.Instance) {}), reads("h1", 0), compute.ReservationWaits, "1 host has an agent of an older version"},
		"its beginning": {waits(func(i *compute.Instance) { i.PublishAt = time.Now().Add(time.Hour) }), reads("h1", 0), compute.ReservationWaits, "shortly before"},
		"its taker": {waits(func(i *compute.Instance) {
			p := i.Boot.Placeholder()
			p.Taker, p.Kept = id2, true
			i.Boot.AsPlaceholder(p)
		}), reads("h1", wire.SchemaReserved), compute.ReservationWaits, string(id2)},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.offer()
			n.hears(c.host)
			n.has(c.placeholder, taker(id2, compute.StateActive))
			i := into[rest.Instance](n.do("GET", path(id1), nil), 200)
			if i.Waiting == nil || i.Waiting.Code != c.code || !strings.Contains(i.Waiting.Detail, c.says) {
				t.Errorf("it waits: %+v", i.Waiting)
			}
			if e := into[rest.Explanation](n.do("GET", path(id1)+"/explain", nil), 200); !strings.Contains(e.Summary, c.says) {
				t.Errorf("explained: %+v", e)
			}
		})
	}
}

// TestExplainTaker: what waits for one host's room is not told what the others have.
func TestExplainTaker(t *testing.T) {
	n := newNode(t)
	n.hears(offering("h1", 0))
	waits := taker(id2, compute.StateQueued)
	waits.Boot.OnNoCapacity = compute.FailAtOnce
	n.has(placeholder(id1, compute.StateActive, time.Now().Add(time.Hour), time.Now().Add(2*time.Hour), id2), waits)
	a := n.do("GET", path(id2)+"/explain", nil)
	e := into[rest.Explanation](a, 200)
	if e.Hosts != nil || e.Place != nil || strings.Contains(string(a.body), "if no host has taken it") {
		t.Errorf("%s", a.body)
	}
	if !strings.HasPrefix(e.Summary, "it waits for its room: reservation nightly begins") {
		t.Errorf("%s", e.Summary)
	}
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// loser is a placeholder of a request that came after another one of its name.
func loser(id compute.InstanceID, until, accepted, ended time.Time) compute.Instance {
	i := placeholder(id, compute.StateError, until.Add(-2*time.Hour), until, "")
	i.Attempt, i.QueuedAt, i.AcceptedAt, i.EndedAt = 0, time.Time{}, accepted, ended
	i.Reason = &compute.Reason{Code: compute.RequestDiffers, Detail: "there is a reservation nightly already"}
	return i
}

// TestReservationNameLost: of two requests for one name that two nodes accepted at once, each caller is told of its
// own, and afterwards the one that the conductor made is shown, alone, with the other one beside it and why it was
// refused; also once the first has ended.
func TestReservationNameLost(t *testing.T) {
	n := newNode(t)
	n.offer()
	from := time.Now().UTC().Truncate(time.Second)
	until := from.Add(2 * time.Hour)
	ahead := from.Add(time.Minute) // by the other node's clock
	asked := compute.Request{Op: compute.OpReserve, Project: "default", Instance: id1, At: ahead, Reserve: &compute.Reserve{
		Name: "nightly", From: from, Until: until, Boot: compute.Boot{Flavor: "m1.small"}, Instances: []compute.InstanceID{id1},
	}}
	n.after = func([]wire.Record) { // while this node writes its own
		n.Requests([]wire.Record{wire.EncodeRequest(asked).To(n.config.Topics.Requests(), 0)}, true)
	}
	body := `{"name":"nightly","flavor":"m1.small","for":"3h","count":2}`
	own := into[rest.ReservationView](n.do("POST", "/v1/reservations", body), 202)
	if own.State != "accepted" || own.Count != 2 || len(own.Placeholders) != 2 {
		t.Errorf("it answers %+v", own)
	}
	first := placeholder(id1, compute.StateActive, from, until, "")
	first.AcceptedAt, first.QueuedAt = start, start
	before := loser(id4, until, start.Add(-time.Hour), start.Add(-time.Hour)) // to a reservation before this one
	n.has(before, first)
	for _, p := range own.Placeholders {
		n.has(loser(p.ID, own.Until, start.Add(time.Minute), start.Add(time.Minute)))
	}
	n.has(loser(id3, until, start.Add(2*time.Minute), start.Add(2*time.Minute))) // of the very same span
	show := func(state string) {
		t.Helper()
		got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
		if got.State != state || len(got.Placeholders) != 1 || got.Placeholders[0].ID != id1 || len(got.Refused) != 2 {
			t.Fatalf("%+v", got)
		}
		var ids []compute.InstanceID
		for _, p := range own.Placeholders {
			ids = append(ids, p.ID)
		}
		if r := got.Refused[1]; r.Reason == nil || r.Reason.Code != compute.RequestDiffers || !r.Until.Equal(own.Until) ||
			!slices.Equal(r.Placeholders, slices.Sorted(slices.Values(ids))) {
			t.Errorf("refused were %+v", got.Refused)
		}
	}
	show("held")
	list := into[rest.Reservations](n.do("GET", "/v1/reservations", nil), 200)
	if len(list.Items) != 1 || list.Items[0].Refused != nil {
		t.Errorf("listed are %+v", list)
	}
	n.published()
	into[rest.ReservationView](n.do("DELETE", "/v1/reservations/nightly", nil), 202)
	if req := n.sentOne(); req.Instance != id1 {
		t.Errorf("deleted is %s", req.Instance)
	}
	ended := placeholder(id1, compute.StateDeleted, from, until, "")
	ended.Version, ended.AcceptedAt, ended.QueuedAt = 9, start, start
	n.has(ended)
	show("ended")
}

// TestReservationsAtOnce: one node accepts one of a name.
func TestReservationsAtOnce(t *testing.T) {
	n := newNode(t)
	n.offer()
	var all sync.WaitGroup
	statuses := make([]int, 4)
	for i := range statuses {
		all.Go(func() {
			body := `{"name":"nightly","flavor":"m1.small","for":"2h","count":` + string(rune('1'+i)) + `}`
			statuses[i] = n.do("POST", "/v1/reservations", body).status
		})
	}
	all.Wait()
	slices.Sort(statuses)
	if !slices.Equal(statuses, []int{202, 409, 409, 409}) || len(n.published()) != 1 {
		t.Errorf("answered %v", statuses)
	}
}

// reserving is a request of another node for "nightly", as it is in the log.
func (n *node) reserving(offset int64, at, until time.Time, ids ...compute.InstanceID) wire.Record {
	rec := wire.EncodeRequest(compute.Request{
		Op: compute.OpReserve, Project: "default", Instance: ids[0], At: at, Reserve: &compute.Reserve{
			Name: "nightly", From: start, Until: until, Boot: compute.Boot{Flavor: "m1.small"}, Instances: ids,
		},
	}).To(n.config.Topics.Requests(), 0)
	rec.Offset = offset
	return rec
}

// TestReservationUndecided: of requests for one name that no conductor has decided the name means the first in the
// log, whatever the clocks of nodes say, and the one that is made once one is.
func TestReservationUndecided(t *testing.T) {
	until := start.Add(time.Hour)
	for name, ahead := range map[string]time.Duration{
		"the first is of a clock that is slow": -time.Minute, "the first is of a clock that is fast": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Requests([]wire.Record{
				n.reserving(7, start.Add(ahead), until, id2), n.reserving(8, start, until, id1),
				n.reserving(9, start.Add(2*ahead), until.Add(time.Hour), id3, id4),
			}, true)
			means := func(state string, id compute.InstanceID) {
				t.Helper()
				got := into[rest.ReservationView](n.do("GET", "/v1/reservations/nightly", nil), 200)
				if got.State != state || len(got.Placeholders) != 1 || got.Placeholders[0].ID != id {
					t.Errorf("%+v", got)
				}
			}
			means("accepted", id2)
			n.has(loser(id2, until.Add(time.Minute), start, start)) // there was one of the name, which has ended since
			means("accepted", id1)
			n.has(placeholder(id1, compute.StateActive, start, until, ""))
			means("held", id1)
		})
	}
}

// TestReservationEndsUndecided: what is deleted by its name is each request for it that may still be made, also one
// that this node has not read yet.
func TestReservationEndsUndecided(t *testing.T) {
	n, until := newNode(t), start.Add(time.Hour)
	ended := placeholder(id5, compute.StateDeleted, start.Add(-time.Hour), start, "")
	n.has(ended)
	n.Requests([]wire.Record{n.reserving(8, start.Add(time.Minute), until, id2, id3)}, true)
	n.sync = func() error {
		n.Requests([]wire.Record{n.reserving(7, start, until, id1), n.reserving(9, start, until, id4)}, true)
		return nil
	}
	n.published()
	v := into[rest.ReservationView](n.do("DELETE", "/v1/reservations/nightly", nil), 202)
	if len(v.Placeholders) != 1 || v.Placeholders[0].ID != id1 {
		t.Errorf("answered %+v", v)
	}
	var deleted []compute.InstanceID
	for _, rec := range n.published() {
		req, err := wire.DecodeRequest(rec)
		if err != nil || req.Op != compute.OpDelete {
			t.Fatalf("published %+v: %v", req, err)
		}
		deleted = append(deleted, req.Instance)
	}
	if slices.Sort(deleted); !slices.Equal(deleted, []compute.InstanceID{id1, id2, id3, id4}) {
		t.Errorf("deleted %v", deleted)
	}
}

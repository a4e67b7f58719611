// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// host is one host, as its agent sees it.
type host struct {
	w        *world
	id       compute.HostID
	fetches  *fetch.Fetcher
	has      int64 // processors
	traits   []compute.Trait
	uses     int64
	building int
	closed   bool
	open     map[wire.SessionID]*fetching
	holds    map[int64]*piece // locked here, and not given back
	said     compute.Beacon
	saying   bool
	did      time.Time // when it last took work, or had something to do
	latency  time.Duration
	saved    map[compute.QueueName]time.Time // until when it may save, as it was told
}

// fetching is a fetch that a broker has not answered yet.
type fetching struct {
	queues []wire.QueueRef
	ends   time.Time
	answer bool // it is on its way
}

const (
	fast      = compute.Trait("FAST")
	slots     = 4
	longFetch = 5 * time.Second
)

func (w *world) newHost(i int) *host {
	h := &host{
		w: w, id: compute.HostID(fmt.Sprint("host-", i)), has: rapid.Int64Range(2, 10).Draw(w.t, "processors"),
		open: map[wire.SessionID]*fetching{}, holds: map[int64]*piece{}, did: w.now,
		latency: time.Duration(rapid.IntRange(1, 30).Draw(w.t, "latency")) * time.Millisecond,
	}
	h.uses = rapid.Int64Range(0, h.has).Draw(w.t, "uses")
	h.fetches = fetch.New(fetch.Options{
		Host: h.id, Puller: h, LeaveAlone: 2 * time.Second, Retry: time.Second, Log: zap.NewNop(), Opened: func() {},
	})
	if rapid.Bool().Draw(w.t, "fast") {
		h.traits = []compute.Trait{fast}
	}
	h.fetches.Describe(compute.Resources{compute.VCPU: h.has}, map[compute.Trait]bool{fast: len(h.traits) > 0})
	for _, q := range w.queues {
		h.fetches.SetQueue(q, w.now)
	}
	h.fetches.QueuesRead()
	h.fetches.Advise(w.advice(), w.now)
	h.fetches.AdviceRead()
	w.say("%s has %d of %d in use", h.id, h.uses, h.has)
	if h.uses > 0 {
		h.endsLater(h.uses)
	}
	h.readLater()
	return h
}

// endsLater has machines of the host end some time.
func (h *host) endsLater(amount int64) {
	h.w.in(time.Duration(rapid.IntRange(1, 120).Draw(h.w.t, "lasts"))*time.Second, func() {
		h.uses -= amount
		h.w.say("%s has %d of %d in use", h.id, h.uses, h.has)
		h.fetches.Freed(h.w.now)
	})
}

// readLater has the host read advice some time: a fetch of it may last forty seconds.
func (h *host) readLater() {
	h.w.in(time.Duration(rapid.IntRange(100, 40_000).Draw(h.w.t, "reads"))*time.Millisecond, func() {
		if !h.w.gone {
			h.fetches.Advise(h.w.advice(), h.w.now)
			h.readLater()
		}
	})
}

func (h *host) Place(_ context.Context, refs []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	at := map[wire.SessionID][]wire.QueueRef{}
	for _, r := range refs {
		session := wire.SessionID{Group: "g", Broker: int32(r.Name[0])}
		at[session] = append(at[session], r)
	}
	return at, nil
}

func (h *host) Results() <-chan wire.Pulled { return nil }

func (h *host) Open(session wire.SessionID, refs []wire.QueueRef, wait time.Duration) {
	wait = cmp.Or(wait, longFetch)
	f := &fetching{queues: refs, ends: h.w.now.Add(wait)}
	h.open[session] = f
	var names []compute.QueueName
	for _, r := range refs {
		names = append(names, r.Name)
	}
	h.w.say("%s fetches %v for %v", h.id, names, wait)
	h.w.in(wait+h.latency, func() { h.answer(session, f) })
	h.offered(session, f)
}

// offered has a broker answer a fetch if there is something for it.
func (h *host) offered(session wire.SessionID, f *fetching) {
	if _, _, some := h.w.first(f.queues); some && !f.answer {
		f.answer = true
		h.w.in(h.latency, func() { h.answer(session, f) })
	}
}

// answer ends a fetch with what is there. Another host may have had what was there before.
func (h *host) answer(session wire.SessionID, f *fetching) {
	if h.open[session] != f {
		return
	}
	from, x, some := h.w.first(f.queues)
	if f.answer = false; !some && h.w.now.Before(f.ends) {
		return
	}
	delete(h.open, session)
	if !some {
		h.w.say("%s fetched nothing", h.id)
		h.fetches.Ended(wire.Pulled{Session: session}, h.w.now)
		return
	}
	x.locked = h.id
	x.delivery++
	ref := wire.WorkRef{Session: session, Queue: from, Offset: x.offset, Delivery: x.delivery}
	h.w.say("%s fetched %s of %s", h.id, x.key, from.Name)
	h.fetches.Ended(wire.Pulled{Session: session, Record: &wire.Record{}, Ref: ref}, h.w.now)
	never := slices.Contains(x.avoid, h.id)
	rather := slices.Contains(x.failed, h.id) && x.delivery < fetch.ThirdDelivery
	if never || rather || h.closed {
		h.holds[x.offset] = x
		h.fetches.Release(ref, never, !h.closed, h.w.now)
		return
	}
	h.take(x)
}

// Ack gives back what must not run here.
func (h *host) Ack(ref wire.WorkRef, how wire.Ack) {
	if x := h.holds[ref.Offset]; x != nil && how == wire.AckRelease {
		h.w.say("%s gives %s back", h.id, x.key)
		delete(h.holds, ref.Offset)
		h.w.in(h.latency, func() {
			x.locked = ""
			h.w.lies(x.queue)
		})
	}
}

// take builds a machine: its claim is granted after a while, and its start takes another.
func (h *host) take(x *piece) {
	h.fetches.Took(x.queue.Name)
	needs := x.queue.Resources[compute.VCPU]
	if h.uses += needs; h.uses > h.has {
		h.w.wrong("%s took more than it has room for", h.id)
	}
	h.building++
	h.fetches.Changed()
	claims := time.Duration(rapid.IntRange(5, 300).Draw(h.w.t, "claims")) * time.Millisecond
	h.w.in(claims, func() { h.w.claimed(x, h.id) })
	starts := time.Duration(rapid.IntRange(10, 3000).Draw(h.w.t, "starts")) * time.Millisecond
	h.w.in(claims+starts, func() {
		h.building--
		h.fetches.Changed()
		h.endsLater(needs)
	})
}

func (h *host) supply() fetch.Supply {
	is := offer.Terms{}.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: h.has}}, nil, nil)
	return fetch.Supply{
		Offers: !h.closed, Slots: slots - h.building,
		Room: is.Room(offer.Held{Resources: compute.Resources{compute.VCPU: h.uses}}),
	}
}

// look has the host do what is due, and say what changed.
func (h *host) look() {
	h.fetches.GiveBack(h.w.now)
	for q := h.fetches.Look(h.supply(), h.w.now); q != nil; q = h.fetches.Look(h.supply(), h.w.now) {
		q.Ask(context.Background())
		h.fetches.Placed(q, h.supply(), h.w.now)
	}
	h.tell()
}

// tell has the queue manager hear what the host has to offer, if that is not what it said last.
func (h *host) tell() {
	b := compute.Beacon{
		Host: h.id, State: compute.HostEnabled,
		Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: h.has}, Traits: h.traits},
		Free:      compute.Resources{compute.VCPU: h.has - h.uses}, Rings: true, Saves: true, At: h.w.now,
		Saving: h.fetches.Saving(h.w.now),
	}
	if h.closed {
		b.State = compute.HostDisabled
	}
	same := b.State == h.said.State && b.Free.Equal(h.said.Free) && b.Saving.For() == h.said.Saving.For()
	if same && h.w.now.Sub(h.said.At) < beaconEvery || h.saying {
		return
	}
	h.saying, h.said = true, b
	h.w.in(beaconTakes, func() {
		h.saying = false
		h.w.heard(b)
	})
}

const (
	beaconEvery = 10 * time.Second
	beaconTakes = 100 * time.Millisecond
)

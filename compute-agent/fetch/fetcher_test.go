// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// puller has a broker for each letter that queues begin with, and writes down what it is told.
type puller struct {
	told []string
}

func (p *puller) Place(_ context.Context, refs []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	at := map[wire.SessionID][]wire.QueueRef{}
	for _, r := range refs {
		session := wire.SessionID{Group: "g", Broker: int32(r.Name[0])}
		at[session] = append(at[session], r)
	}
	return at, nil
}

func (p *puller) Open(session wire.SessionID, refs []wire.QueueRef, wait time.Duration) {
	words := []string{"open"}
	if session.Secondary {
		words = append(words, "beside")
	}
	for _, r := range refs {
		words = append(words, string(r.Name))
	}
	if wait > 0 {
		words = append(words, wait.String())
	}
	p.told = append(p.told, strings.Join(words, " "))
}

func (p *puller) Ack(ref wire.WorkRef, how wire.Ack) {
	words := [...]string{"?", "accept", "release", "reject", "renew"}
	p.told = append(p.told, fmt.Sprint(words[how], " ", ref.Queue.Name, " ", ref.Offset))
}

func (p *puller) Results() <-chan wire.Pulled { return nil }

// fixture is a Fetcher of a host with ten processors, and the time there.
type fixture struct {
	*Fetcher
	t     *testing.T
	p     *puller
	now   time.Time
	slots int
	uses  int64 // processors in use
}

func newFixture(t *testing.T, queues ...string) *fixture {
	d := &fixture{t: t, p: &puller{}, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), slots: 4}
	d.Fetcher = New(Options{
		Host: "h", Puller: d.p, LeaveAlone: 2 * time.Second, Retry: time.Second, Log: zap.NewNop(), Opened: func() {},
	})
	d.began = d.now
	d.Describe(compute.Resources{compute.VCPU: 10}, nil)
	for _, q := range queues {
		d.add(q)
	}
	d.QueuesRead()
	d.AdviceRead()
	return d
}

// add lists a queue: its name, and how many processors its work needs.
func (d *fixture) add(q string) {
	d.t.Helper()
	var name string
	var needs int64
	if _, err := fmt.Sscan(q, &name, &needs); err != nil {
		d.t.Fatal(err)
	}
	d.SetQueue(compute.Queue{
		Name: compute.QueueName(name), Group: "g", TopicID: "t", Resources: compute.Resources{compute.VCPU: needs},
	}, d.now)
}

func (d *fixture) supply() Supply {
	host := offer.Terms{}.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: 10}}, nil, nil)
	return Supply{
		Offers: true, Slots: d.slots,
		Room: host.Room(offer.Held{Resources: compute.Resources{compute.VCPU: d.uses}}),
	}
}

func (d *fixture) look() {
	if q := d.Look(d.supply(), d.now); q != nil {
		q.Ask(context.Background())
		d.Placed(q, d.supply(), d.now)
	}
}

// ended tells how the fetch in a queue's session ended; offset < 0: with nothing.
func (d *fixture) ended(queue string, offset int64, delivery int16) {
	session := wire.SessionID{Group: "g", Broker: int32(queue[0])}
	p := wire.Pulled{Session: session}
	if offset >= 0 {
		p.Record = &wire.Record{}
		ref := wire.QueueRef{Name: compute.QueueName(queue)}
		p.Ref = wire.WorkRef{Session: session, Queue: ref, Offset: offset, Delivery: delivery}
	}
	d.Ended(p, d.now)
	if offset >= 0 {
		d.Release(p.Ref, true, true, d.now)
	}
}

// told expects what the puller was told since the last time asked.
func (d *fixture) told(want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.p.told); diff != "" {
		d.t.Errorf("the puller was told (-want +got): %s", diff)
	}
	d.p.told = nil
}

// Whatever all open fetches bring has room at once: what does not fit beside them waits for one to end.
func TestOpenFetchesFitTogether(t *testing.T) {
	d := newFixture(t, "a 6", "b 6", "c 4")
	d.look()
	if n := d.Open(); n != 2 {
		t.Errorf("%d fetches are open", n)
	}
	waiting := d.Waiting()
	d.p.told = nil
	d.look()
	d.told()
	for _, q := range waiting {
		d.ended(string(q), -1, 0)
	}
	d.look()
	if again := d.Waiting(); len(again) != 2 || cmp.Equal(again, waiting) {
		t.Errorf("first it waits on %v, then on %v: what was left out comes first", waiting, again)
	}
}

// Two fetches of small work that end in turn, while no queue manager is heard, keep a machine of the host's size away
// for a while, not for ever.
func TestLargeWorkBesideFetchesThatEndInTurn(t *testing.T) {
	d := newFixture(t, "a 1", "b 1", "c 10")
	d.look()
	for range 20 {
		for _, q := range []string{"a", "b"} {
			if !d.waitsOn(compute.QueueName(q)) {
				continue
			}
			d.now = d.now.Add(time.Second)
			d.ended(q, -1, 0)
			if d.look(); !d.waitsOn("c") {
				continue
			}
			if last := d.p.told[len(d.p.told)-1]; last != "open c 100ms" { // others wait for it
				t.Errorf("looking for large work: %s", last)
			}
			return
		}
	}
	t.Errorf("the host never looked for large work: %v", d.p.told)
}

// A fetch ends soon for the sake of a queue that the host was rung for and could not list then, if it has the room.
func TestAFetchEndsSoonForWhatHasRoom(t *testing.T) {
	for uses, want := range map[int64]string{0: "open a 2s", 5: "open a"} {
		d := newFixture(t, "a 1", "b 10")
		d.uses = uses
		d.LeaveAlone("b", d.now)
		d.Ring(compute.Look{Queue: "a", Hold: time.Minute}, d.now)
		d.Ring(compute.Look{Queue: "b"}, d.now)
		d.look()
		d.told(want)
	}
}

// A host without a free slot opens nothing, and no more fetches than it has slots.
func TestSlotsBoundOpenFetches(t *testing.T) {
	d := newFixture(t, "a 1", "b 1", "c 1")
	d.slots = 0
	d.look()
	d.told()
	d.slots = 2
	d.Changed()
	d.look()
	if n := d.Open(); n != 2 {
		t.Errorf("with two slots %d fetches are open", n)
	}
}

// What is for this host alone is kept from fetches until it is taken.
func TestPinnedWorkKeepsItsRoom(t *testing.T) {
	d := newFixture(t, "a 6")
	d.Pin(compute.Build{Resources: compute.Resources{compute.VCPU: 6}})
	d.look()
	d.told()
	d.Pinned(func(compute.Build) bool { return true })
	d.Changed()
	d.look()
	d.told("open a")
}

// What waits for machines to end keeps nothing from others while it does not fit, and its room once it does. What only
// needs a moment keeps what there is.
func TestPinnedWorkThatWaitsForRoom(t *testing.T) {
	d := newFixture(t, "a 4")
	d.uses = 6
	d.Pin(compute.Build{Resources: compute.Resources{compute.VCPU: 8}})
	d.look()
	d.told()
	d.Pin(compute.Build{Resources: compute.Resources{compute.VCPU: 8}, WaitUntil: d.now.Add(time.Hour)})
	d.Changed()
	d.look()
	d.told("open a")
	d.ended("a", -1, 0)
	d.uses = 2
	d.Changed()
	d.look()
	d.told()
}

// Work that is offered again is there once, as it was offered last; that of another project with its id is other work.
func TestPinnedWorkIsThereOnce(t *testing.T) {
	d := newFixture(t)
	for _, b := range []compute.Build{
		{Project: "p", Instance: "1", Attempt: 1}, {Project: "p", Instance: "2", Attempt: 1},
		{Project: "q", Instance: "1", Attempt: 7}, {Project: "p", Instance: "1", Attempt: 2},
	} {
		d.Pin(b)
	}
	left := func(done compute.Attempt) (got string) {
		d.Pinned(func(b compute.Build) bool {
			got += fmt.Sprintf(" %s%s.%d", b.Project, b.Instance, b.Attempt)
			return b.Attempt == done
		})
		return got
	}
	if got := left(2); got != " p1.2 p2.1 q1.7" {
		t.Errorf("there are%s", got)
	}
	if got := left(0); got != " p2.1 q1.7" {
		t.Errorf("and without what is done%s", got)
	}
}

// What is offered again after some of it was dropped is found where it is then.
func TestPinnedWorkIsFoundBehindWhatWasDropped(t *testing.T) {
	d := newFixture(t)
	pin := func(n int, attempt compute.Attempt) {
		d.Pin(compute.Build{Project: "p", Instance: compute.InstanceID(fmt.Sprint(n)), Attempt: attempt})
	}
	for n := range 9 {
		pin(n, 1)
	}
	d.Pinned(func(b compute.Build) bool { return b.Instance < "5" })
	for n := range 9 {
		pin(n, 2)
	}
	var got string
	d.Pinned(func(b compute.Build) bool {
		got += fmt.Sprintf(" %s.%d", b.Instance, b.Attempt)
		return false
	})
	if want := " 5.2 6.2 7.2 8.2 0.2 1.2 2.2 3.2 4.2"; got != want {
		t.Errorf("there are%s, want%s", got, want)
	}
}

// Work that can never run here and that nobody else takes is held while the host looks behind it, and all of it
// is given back when a look has brought nothing.
func TestHeldWork(t *testing.T) {
	d := newFixture(t, "a 1")
	d.look()
	d.told("open a")
	d.ended("a", 1, 1)
	d.told("release a 1")
	d.look()
	d.told() // left to others for a while
	d.now = d.Due()
	d.look()
	d.told("open a")
	d.ended("a", 1, ThirdDelivery)
	d.look()
	d.told("open a 100ms")
	d.ended("a", 2, 1) // behind it, and as useless here
	d.look()
	d.told("open a 100ms")
	d.ended("a", -1, 0)
	d.told("release a 1", "release a 2")
}

// manyQueues are more than one fetch lists: a001, a002, …
func manyQueues(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("a%03d 1", i+1))
	}
	return list
}

// Where a host has more queues than one fetch lists, it looks behind what it holds all the same, in the very next
// fetch: the work is given back before the queue's next turn.
func TestHeldWorkAmongManyQueues(t *testing.T) {
	d := newFixture(t, manyQueues(3*offer.MostListed)...)
	d.look()
	first := d.Waiting()[0]
	d.ended(string(first), 1, ThirdDelivery)
	d.look()
	if !d.waitsOn(first) {
		t.Errorf("what lies behind in %s is not looked at", first)
	}
	d.now = d.now.Add(d.o.LeaveAlone)
	first = "a000"
	d.ended("a", -1, 0)
	d.held = append(d.held, held{wire.WorkRef{Queue: wire.QueueRef{Name: first}}, d.now})
	d.add("a000 1")
	for _, c := range d.candidates(d.supply().Room, d.now) {
		if c.Behind {
			t.Errorf("%s comes before all others though its work was held for long enough", c.Queue)
		}
	}
}

// Work that a host must not take ends a fetch of many queues. What was listed beside it is listed in the next one:
// else it would be beside it at its next turn, and never looked at.
func TestUselessWorkAmongManyQueues(t *testing.T) {
	const rounds = 3
	for _, useless := range []int{0, 1, 20, 80} {
		d := newFixture(t, manyQueues(rounds*offer.MostListed)...)
		looked := map[compute.QueueName]bool{}
		for n := 0; n < rounds+1; d.Changed() {
			d.look()
			waits := d.Waiting()
			last := compute.QueueName(fmt.Sprintf("a%03d", useless))
			at := slices.IndexFunc(waits, func(q compute.QueueName) bool { return q <= last })
			if at >= 0 { // the broker looks there first
				d.ended(string(waits[at]), 1, 1)
				continue
			}
			for _, q := range waits {
				looked[q] = true
			}
			n++
			d.now = d.now.Add(5 * time.Second)
			d.ended("a", -1, 0)
		}
		if want := rounds*offer.MostListed - useless; len(looked) != want {
			t.Errorf("%d of %d queues were looked at, beside %d with useless work", len(looked), want, useless)
		}
	}
}

// Nothing is held when the agent stops, nor for longer than a while.
func TestHeldWorkIsGivenBack(t *testing.T) {
	d := newFixture(t, "a 1")
	d.look()
	d.ended("a", 1, ThirdDelivery)
	d.told("open a")
	d.GiveBack(d.now)
	d.told()
	if due := d.Due(); due.After(d.now.Add(2 * time.Second)) {
		t.Errorf("it is given back in %s", due.Sub(d.now))
	}
	d.GiveBack(d.now.Add(2 * time.Second))
	d.told("release a 1")
	d.now = d.now.Add(4 * time.Second)
	d.Changed()
	d.look()
	d.ended("a", 3, ThirdDelivery)
	d.GiveAllBack(d.now)
	d.told("open a", "release a 3")
}

// A fetch that ends while brokers are asked listed what is not in the question: its session is asked for anew.
func TestFetchEndsWhileBrokersAreAsked(t *testing.T) {
	d := newFixture(t, "aa 1")
	d.look()
	d.add("ab 1")
	q := d.Look(d.supply(), d.now)
	if q == nil || !d.Placing() {
		t.Fatal("a new queue is not asked for")
	}
	q.Ask(context.Background())
	d.ended("aa", -1, 0)
	d.told("open aa")
	d.Placed(q, d.supply(), d.now)
	d.told()
	d.look()
	if diff := cmp.Diff([]compute.QueueName{"aa", "ab"}, d.Waiting()); diff != "" {
		t.Error(diff)
	}
}

// What comes up while a fetch is open is fetched beside it at once.
func TestNewQueueBesideAnOpenFetch(t *testing.T) {
	d := newFixture(t, "aa 1")
	d.look()
	d.now = d.now.Add(time.Second)
	d.add("ab 1")
	d.look()
	d.told("open aa", "open beside ab")
}

// A host that offers nothing looks again when it may.
func TestHostThatOffersNothing(t *testing.T) {
	d := newFixture(t, "a 1")
	until := d.now.Add(time.Minute)
	if d.Look(Supply{Until: until}, d.now) != nil || !d.Due().Equal(until) {
		t.Errorf("it looks again at %s", d.Due())
	}
	d.now = until
	d.look()
	d.told("open a")
}

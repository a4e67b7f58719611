// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is written into the record of a boot reads so, beside what is there; rules that it shared stay as they are.
func TestRulesOfABoot(t *testing.T) {
	shared := &PlacementRules{Group: "g"}
	p := Placeholder{Of: "r", Size: 2, From: time.Unix(1, 0), Until: time.Unix(2, 0)}
	in := InPlaceholder{ID: id(1), Attempt: 2}
	for what, c := range map[string]struct {
		edit func(*Boot)
		want PlacementRules
	}{
		"placeholder": {func(b *Boot) { b.AsPlaceholder(p) }, PlacementRules{Placeholder: p}},
		"taken":       {func(b *Boot) { b.TakenBy(id(1)) }, PlacementRules{Placeholder: Placeholder{Taker: id(1)}}},
		"kept":        {func(b *Boot) { b.Keep(true) }, PlacementRules{Placeholder: Placeholder{Kept: true}}},
		"takes":       {func(b *Boot) { b.Takes(in) }, PlacementRules{In: in}},
		"reserving":   {func(b *Boot) { b.Reserving("r") }, PlacementRules{Reservation: "r"}},
		"in a set":    {func(b *Boot) { b.InSet(Set{ID: id(1), Size: 2}) }, PlacementRules{Set: Set{ID: id(1), Size: 2}}},
	} {
		b := Boot{Rules: shared}
		c.edit(&b)
		want := c.want
		want.Group = "g"
		if diff := cmp.Diff(&want, b.Rules); diff != "" || *shared != (PlacementRules{Group: "g"}) {
			t.Errorf("%s: %s, and shared are %+v", what, diff, shared)
		}
		var none Boot
		c.edit(&none)
		if diff := cmp.Diff(&c.want, none.Rules); diff != "" {
			t.Errorf("%s of none: %s", what, diff)
		}
		if diff := cmp.Diff(c.want, none.Spread()); diff != "" || none.Placeholder() != c.want.Placeholder ||
			none.In() != c.want.In || none.Reservation() != c.want.Reservation || none.Set() != c.want.Set ||
			none.IsPlaceholder() != (what == "placeholder") {
			t.Errorf("%s: read as %+v", what, none.Spread())
		}
	}
	b := Boot{}
	if b.Placeholder() != (Placeholder{}) || b.In() != (InPlaceholder{}) || b.Reservation() != "" || b.Set() != (Set{}) ||
		b.Spread() != (PlacementRules{}) || b.IsPlaceholder() {
		t.Error("what has no rules has some")
	}
	for _, r := range []*PlacementRules{
		RulesOf("g", Set{}, PriorityNormal), RulesOf("", Set{ID: id(1)}, PriorityNormal), RulesOf("", Set{}, PriorityLow),
	} {
		if r == nil {
			t.Error("rules that say something are none")
		}
	}
	i := Instance{}
	i.SetMadeRoom(2)
	if i.MadeRoom() != 2 {
		t.Errorf("room was made by %d", i.MadeRoom())
	}
	before := i.Boot.Rules
	if i.SetMadeRoom(2); i.Boot.Rules != before {
		t.Error("the same is written again")
	}
	if i.SetMadeRoom(0); i.Boot.Rules != nil || i.MadeRoom() != 0 {
		t.Errorf("%+v", i.Boot.Rules)
	}
}

// A request has what the conductor is given, and nothing that it has noted itself.
func TestAskedRules(t *testing.T) {
	p := Placeholder{Of: "r", Size: 2}
	for what, c := range map[string]struct{ has, want *PlacementRules }{
		"none":  {nil, nil},
		"noted": {&PlacementRules{MadeRoom: 2, In: InPlaceholder{ID: id(1)}, Notice: &Notice{}}, nil},
		"a group": {
			&PlacementRules{Group: "g", Set: Set{ID: id(1)}, Priority: PriorityHigh, MadeRoom: 1},
			&PlacementRules{Group: "g", Set: Set{ID: id(1)}, Priority: PriorityHigh},
		},
		"placeholder": {&PlacementRules{Placeholder: p, MadeRoom: 1}, &PlacementRules{Placeholder: p}},
		"taken":       {&PlacementRules{Placeholder: Placeholder{Taker: id(1)}}, nil},
		"reserving":   {&PlacementRules{Reservation: "r", MadeRoom: 1}, &PlacementRules{Reservation: "r"}},
		"preemptible": {
			&PlacementRules{Preemptible: Preemptible{Then: ThenDelete}, Priority: PriorityLow, MadeRoom: 1},
			&PlacementRules{Preemptible: Preemptible{Then: ThenDelete}, Priority: PriorityLow},
		},
	} {
		b := Boot{Rules: c.has}
		if diff := cmp.Diff(c.want, b.AskedRules()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	taker := Boot{Rules: &PlacementRules{Reservation: "r", Priority: PriorityHigh, In: InPlaceholder{ID: id(1)}}}
	if diff := cmp.Diff(&PlacementRules{Reservation: "r"}, taker.Asked().Rules); diff != "" {
		t.Errorf("the class of a taker is its placeholder's: %s", diff)
	}
}

func TestInstancesOfReservations(t *testing.T) {
	holds, taken, takes := &Instance{Project: "p"}, &Instance{Project: "p"}, &Instance{Project: "p"}
	holds.Boot.AsPlaceholder(Placeholder{Of: "r"})
	taken.Boot.AsPlaceholder(Placeholder{Of: "r", Taker: id(1)})
	takes.Boot.Reserving("s")
	for s := StateNone; s <= StateUnknown; s++ {
		holds.State, taken.State, takes.State = s, s, s
		if holds.Counts() != s.Counts() || taken.Counts() || takes.Counts() != s.Counts() {
			t.Errorf("%s counts: %t, taken %t, its taker %t", s, holds.Counts(), taken.Counts(), takes.Counts())
		}
		if want := s != StateDeleting && !s.Ended(); holds.HoldsRoom() != want || takes.HoldsRoom() {
			t.Errorf("%s holds room: %t", s, holds.HoldsRoom())
		}
	}
	if holds.ReservationKey() != (ReservationKey{"p", "r"}) || takes.ReservationKey() != (ReservationKey{"p", "s"}) {
		t.Errorf("%v and %v", holds.ReservationKey(), takes.ReservationKey())
	}
	now := time.Unix(1e9, 0)
	p := &Instance{ID: id(1), State: StateQueued}
	p.Boot.AsPlaceholder(Placeholder{Of: "r", From: now.Add(1), Taker: id(2)})
	says := []string{WaitsIn(p, now)}
	p.State = StateActive
	says = append(says, WaitsIn(p, now), WaitsIn(p, now.Add(1)), KeptFor(p))
	want := []string{
		"reservation r: its placeholder 00000000-0000-4000-8000-000000000001 is queued, and holds no room yet",
		"reservation r begins at 2001-09-09T01:46:40Z",
		"reservation r: the host of placeholder 00000000-0000-4000-8000-000000000001 is to make it in that room",
		"reservation r: instance 00000000-0000-4000-8000-000000000002 has taken it, and is on a host that " +
			"does not hold it any " +
			"more: hosts are asked for its room once that has ended",
	}
	if diff := cmp.Diff(want, says); diff != "" {
		t.Error(diff)
	}
}

func TestSetsOfInstances(t *testing.T) {
	s := Set{ID: id(1), Size: 3, Whole: "q"}
	i := &Instance{ID: id(1), State: StateQueued}
	if i.Leads() || i.Waits() || i.Whole() != "" {
		t.Error("it is of no set")
	}
	i.Boot.InSet(s)
	if !i.Leads() || !i.Waits() || i.Whole() != "q" {
		t.Errorf("it leads %t, waits %t, whole in %q", i.Leads(), i.Waits(), i.Whole())
	}
	i.ID = id(2)
	if i.Leads() {
		t.Error("another leads")
	}
	if i.State = StateStarting; i.Waits() || i.Whole() != "" {
		t.Error("it waits, and starts")
	}
	i.State = StateQueued
	granted := s
	granted.Granted = true
	if i.Boot.InSet(granted); i.Waits() {
		t.Error("it waits, and was granted")
	}
	if !s.Same(granted) || s.Same(Set{ID: id(1), Size: 2}) || s.Same(Set{ID: id(2), Size: 3}) {
		t.Error("which sets are the same")
	}
	const says = "none of the 3 of its set starts before each has a host"
	const whole = "; they are offered whole in queue q: one host takes all of them"
	if got := s.Says(); got != says+whole || (Set{Size: 3}).Says() != says {
		t.Error(got)
	}
}

// Each boot of a request is one by itself, and shares no rules with it.
func TestBoots(t *testing.T) {
	boot := Boot{Flavor: "f"}
	r := Request{Project: "p", Instance: id(1), Op: OpBoot, Boot: &boot, At: time.Unix(1, 0), Trace: "t"}
	if diff := cmp.Diff([]Request{r}, r.Boots()); diff != "" {
		t.Error(diff)
	}
	inSet, ofR := boot, boot
	inSet.InSet(Set{ID: id(1), Size: 2})
	one := func(n int, b Boot) Request {
		r := r
		r.Instance, r.Boot = id(n), &b
		return r
	}
	set := r
	set.Op, set.Boot, set.Set = OpBootSet, nil, []SetBoot{{id(1), boot}, {id(2), boot}}
	if diff := cmp.Diff([]Request{one(1, inSet), one(2, inSet)}, set.Boots()); diff != "" {
		t.Error(diff)
	}
	reserve := r
	reserve.Op, reserve.Boot = OpReserve, nil
	reserve.Reserve = &Reserve{
		Name: "r", From: time.Unix(2, 0), Until: time.Unix(3, 0), Boot: boot, Instances: []InstanceID{id(1), id(2)},
	}
	ofR.AsPlaceholder(Placeholder{Of: "r", Size: 2, From: time.Unix(2, 0), Until: time.Unix(3, 0)})
	first, second := ofR, ofR
	first.Name, second.Name = "r-1", "r-2"
	if diff := cmp.Diff([]Request{one(1, first), one(2, second)}, reserve.Boots()); diff != "" {
		t.Error(diff)
	}
	if got := (Request{Op: OpDelete}).Boots(); got != nil {
		t.Errorf("%v", got)
	}
}

func TestBootDefaults(t *testing.T) {
	b := Boot{}.WithDefaults()
	if b.Attempts != DefaultAttempts || b.Deadline != DefaultDeadline {
		t.Errorf("%+v", b)
	}
	for _, own := range []Boot{{Attempts: 1, Deadline: 1}, {Attempts: 2, Deadline: 2}} {
		if diff := cmp.Diff(own, own.WithDefaults()); diff != "" {
			t.Error(diff)
		}
	}
	b.UserData, b.Sealed = "a", "b"
	if b.DropUserData(); b.UserData != "" || b.Sealed != "" {
		t.Errorf("%+v", b)
	}
	i := Instance{ChangedAt: time.Unix(1, 0)}
	if !i.UnclaimedSince().Equal(time.Unix(1, 0)) {
		t.Error("since it changed")
	}
	if i.PublishAt = time.Unix(2, 0); !i.UnclaimedSince().Equal(time.Unix(2, 0)) {
		t.Error("since it was published")
	}
	data := UserData("\xff\n")
	text, err := data.MarshalText()
	var again UserData
	if err2 := again.UnmarshalText(text); err != nil || err2 != nil || again != data {
		t.Errorf("%q: %v, %v", again, err, err2)
	}
	if err := again.UnmarshalText([]byte("?")); err == nil {
		t.Error("what is no base64 is read")
	}
}

func TestTiers(t *testing.T) {
	q := Queue{Name: "q", Flavor: "f", State: QueueClosed, Group: "g", TopicID: "t", Error: "e"}
	if diff := cmp.Diff(q, q.Tier(PriorityNormal)); diff != "" {
		t.Error(diff)
	}
	want := Queue{Name: TierName("q", PriorityHigh), Flavor: "f", Priority: PriorityHigh}
	if diff := cmp.Diff(want, q.Tier(PriorityHigh)); diff != "" {
		t.Error(diff)
	}
	if len(Priorities()) != 3 || Priorities()[0] != PriorityHigh || Priority(3).Check() == nil ||
		PriorityHigh.Check() != nil {
		t.Error("classes")
	}
	for p, says := range map[Priority]string{
		PriorityHigh: "10 min older than it is", PriorityLow: "after high work, unless it has waited 20 min longer",
		PriorityNormal: "unless it has waited 10 min longer, and before low work",
	} {
		if !strings.Contains(p.Rule(), says) {
			t.Errorf("%s: %s", p, p.Rule())
		}
	}
}

// A group that spreads its members chooses where the boot does not; one more of a value leaves less room there, and
// more for others.
func TestSpreadsOfBoots(t *testing.T) {
	g := Group{Spread: "rack"}
	for _, c := range []struct {
		g    Group
		with Choices
		want bool
	}{
		{g, nil, true}, {g, Choices{"rack": "a"}, false}, {g, Choices{"gpu": "a"}, true}, {Group{}, nil, false},
		{Group{}, Choices{"": ""}, false},
	} {
		if c.g.Chooses(Boot{With: c.with}) != c.want {
			t.Errorf("%v with %v: chooses %t", c.g.Spread, c.with, !c.want)
		}
	}
	b := Boot{With: Choices{"rack": "a", "gpu": "x"}}
	if got := b.Having("rack", "b").With; got["rack"] != "b" || got["gpu"] != "x" || b.With["rack"] != "a" {
		t.Errorf("%v, of %v", got, b.With)
	}
	one := func(AxisValue) uint32 { return 1 }
	for _, skew := range []uint32{1, 2} {
		e := Even{Skew: skew, Values: []AxisValue{"a", "b"}, There: one, Stay: one}.With("a", 2)
		if e.There("a") != 3 || e.Stay("a") != 3 || e.There("b") != 1 || e.Stay("b") != 1 {
			t.Errorf("skew %d: %d and %d there", skew, e.There("a"), e.There("b"))
		}
	}
	if e := (Even{}).With("a", 2); e.There != nil || e.Stay != nil {
		t.Error("without a skew nothing is counted")
	}
	most := Group{Name: "g", Policy: SpreadOnly, Spread: "rack", Skew: MaxSkew}
	refuses(t, "the largest skew", most.checkSpread(), "")
	most.Skew++
	refuses(t, "a larger one", most.checkSpread(), "max_skew")
}

func TestNoticesInWords(t *testing.T) {
	n := Notice{Host: "h", Queue: "q", Class: PriorityHigh}
	want := &Reason{Code: Preempted, Host: "h", Attempt: 2,
		Detail: "its place was taken for work of priority high in queue q"}
	if diff := cmp.Diff(want, n.Reason(2)); diff != "" {
		t.Error(diff)
	}
	i := &Instance{}
	if i.EndNotice(time.Unix(1, 0)); i.Notice() != nil || i.LastNotice() != nil {
		t.Error("it has notice")
	}
	i.GiveNotice(&n)
	rules := i.Boot.Rules
	if i.GiveNotice(&n); i.Boot.Rules != rules {
		t.Error("the same is written again")
	}
	i.EndNotice(time.Unix(1, 0))
	if i.EndNotice(time.Unix(2, 0)); i.Notice() != nil || !i.LastNotice().Over.Equal(time.Unix(1, 0)) {
		t.Errorf("%+v", i.LastNotice())
	}
	refuses(t, "the longest grace", Preemptible{ThenDelete, MaxGrace}.check(PriorityLow), "")
	refuses(t, "what a version to come says", Preemptible{3, 0}.check(PriorityLow), "preemptible.then")
	refuses(t, "nothing", Preemptible{}.CheckNoSet(), "")
	for _, said := range []bool{false, true} {
		if p, err := ClassOf(Preemptible{ThenDelete, 0}, PriorityNormal, said); (err != nil) != said ||
			!said && p != PriorityLow {
			t.Errorf("said %t: %s, %v", said, p, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFates(t *testing.T) {
	const evacuate, forget = OpFence, OpForget
	pinned := func(i *Instance) { i.Boot.Host = "h" }
	holds := func(i *Instance) { i.Boot.AsPlaceholder(Placeholder{Of: "r"}) }
	noticed := func(then Afterwards) func(*Instance) {
		return func(i *Instance) {
			i.Boot.Preempt(Preemptible{Then: then})
			i.GiveNotice(&Notice{Queue: "q"})
		}
	}
	may := func(then Afterwards) func(*Instance) {
		return func(i *Instance) { i.Boot.Preempt(Preemptible{Then: then}) }
	}
	type want struct {
		fate Fate
		why  ReasonCode
	}
	rebuilt, waits, lost, deleted := want{FateRebuilt, ""}, want{FateWaits, ""}, want{FateEnded, HostLost},
		want{FateDeleted, ""}
	away := want{FateEnded, PinnedHostUnavailable}
	for what, c := range map[string]struct {
		state State
		edit  func(*Instance)
		wants [4]want // evacuate and forget of what can be built again, and of what cannot
	}{
		"starting":         {StateStarting, nil, [4]want{rebuilt, rebuilt, rebuilt, rebuilt}},
		"starting, pinned": {StateStarting, pinned, [4]want{waits, away, waits, away}},
		"starting, pinned, may go": {StateStarting, func(i *Instance) { noticed(ThenRequeue)(i); pinned(i) },
			[4]want{waits, away, waits, away}},
		"starting, may go":      {StateStarting, noticed(ThenDelete), [4]want{rebuilt, rebuilt, rebuilt, rebuilt}},
		"active":                {StateActive, nil, [4]want{rebuilt, lost, lost, lost}},
		"active, pinned":        {StateActive, pinned, [4]want{lost, lost, lost, lost}},
		"active, may go":        {StateActive, may(ThenDelete), [4]want{rebuilt, lost, lost, lost}},
		"active, goes":          {StateActive, noticed(ThenDelete), [4]want{deleted, deleted, deleted, deleted}},
		"active, to be queued":  {StateActive, noticed(ThenRequeue), [4]want{rebuilt, rebuilt, lost, lost}},
		"active, a placeholder": {StateActive, holds, [4]want{rebuilt, rebuilt, lost, lost}},
		"deleting":              {StateDeleting, pinned, [4]want{deleted, deleted, deleted, deleted}},
	} {
		i := &Instance{State: c.state}
		if c.edit != nil {
			c.edit(i)
		}
		var got [4]want
		for n := range got {
			fate, why := FateOf(i, []RequestOp{evacuate, forget}[n%2], n < 2)
			got[n] = want{fate, why}
		}
		if got != c.wants {
			t.Errorf("%s: %v, want %v", what, got, c.wants)
		}
	}
}

// One of a set that ends, ends the others, unless each has run; those that are queued, or are to be, end as errors.
func TestFatesOfSets(t *testing.T) {
	ran := time.Unix(1, 0)
	member := func(n int, state State, at time.Time, pinned HostID) *Instance {
		i := &Instance{Project: "p", ID: id(n), State: state, ActiveAt: at, Boot: Boot{Host: pinned}}
		i.Boot.InSet(Set{ID: id(1), Size: 5})
		return i
	}
	alone := &Instance{Project: "p", ID: id(9), State: StateActive, Boot: Boot{Host: "h"}}
	for what, c := range map[string]struct {
		lost []*Instance
		set  []*Instance
		want []Foreseen // without the instances
		ids  []InstanceID
	}{
		"alone": {[]*Instance{alone}, nil, []Foreseen{{Becomes: FateEnded, Reason: HostLost}}, []InstanceID{id(9)}},
		"all ran": {
			[]*Instance{member(1, StateActive, ran, "h")},
			[]*Instance{member(1, StateActive, ran, "h"), member(2, StateActive, ran, "")},
			[]Foreseen{{Becomes: FateEnded, Reason: HostLost}}, []InstanceID{id(1)},
		},
		"it has not run": {
			[]*Instance{member(1, StateActive, time.Time{}, "h")},
			[]*Instance{member(1, StateActive, time.Time{}, "h"), member(2, StateActive, ran, "")},
			[]Foreseen{{Becomes: FateEnded, Reason: HostLost}, {Becomes: FateDeleted, Reason: SetFailed}},
			[]InstanceID{id(1), id(2)},
		},
		"others have not": {
			[]*Instance{member(3, StateActive, ran, "h"), member(1, StateStarting, time.Time{}, "")},
			[]*Instance{
				member(5, StateDeleting, ran, ""), member(4, StateStarting, time.Time{}, ""), member(3, StateActive, ran, "h"),
				member(2, StateQueued, time.Time{}, ""), member(1, StateStarting, time.Time{}, ""),
			},
			[]Foreseen{ // 1 was to be built anew
				{Becomes: FateEnded, Reason: SetFailed}, {Becomes: FateEnded, Reason: HostLost},
				{Becomes: FateEnded, Reason: SetFailed},
				{Becomes: FateDeleted, Reason: SetFailed},
			}, []InstanceID{id(1), id(3), id(2), id(4)},
		},
		"two fail, one is deleted": {
			[]*Instance{member(1, StateDeleting, ran, ""), member(2, StateActive, ran, "h"), member(3, StateActive, ran, "h")},
			[]*Instance{
				member(1, StateDeleting, ran, ""), member(2, StateActive, ran, "h"), member(3, StateActive, ran, "h"),
				member(4, StateStarting, time.Time{}, ""),
			},
			[]Foreseen{
				{Becomes: FateDeleted}, {Becomes: FateEnded, Reason: HostLost}, {Becomes: FateDeleted, Reason: SetFailed},
				{Becomes: FateDeleted, Reason: SetFailed},
			}, []InstanceID{id(1), id(2), id(3), id(4)},
		},
	} {
		mates := func(i *Instance) []*Instance {
			if i.ID == alone.ID {
				t.Error("it has no mates")
			}
			return c.set
		}
		got := FatesOf(c.lost, OpFence, mates, func(*Instance) bool { return true })
		var ids []InstanceID
		for n := range got {
			ids = append(ids, got[n].ID)
			got[n].Instance = nil
		}
		if diff := cmp.Diff(c.ids, ids); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	other := member(1, StateActive, ran, "h")
	other.Project = "o"
	both := []*Instance{other, member(1, StateActive, ran, "h")}
	none := func(*Instance) []*Instance { return nil }
	if got := FatesOf(both, OpFence, none, func(*Instance) bool { return true }); len(got) != 2 {
		t.Errorf("of two projects: %v", got)
	}
}

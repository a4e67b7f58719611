// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"
	"time"
)

// What may be taken away is of the low class, whether the request says so or nothing; it has a grace that is no longer
// than others can wait, and it is no part of a set.
func TestWhatMayBeTakenAway(t *testing.T) {
	may := Preemptible{Then: ThenRequeue, Grace: time.Minute}
	for _, c := range []struct {
		p     Preemptible
		class Priority
		said  bool
		want  Priority
		field string
	}{
		{may, PriorityNormal, false, PriorityLow, ""}, {may, PriorityLow, true, PriorityLow, ""},
		{may, PriorityNormal, true, 0, "priority"}, {may, PriorityHigh, true, 0, "priority"},
		{Preemptible{}, PriorityHigh, true, PriorityHigh, ""}, {Preemptible{}, PriorityNormal, false, PriorityNormal, ""},
	} {
		got, err := ClassOf(c.p, c.class, c.said)
		if (err != nil) != (c.field != "") || err == nil && got != c.want ||
			err != nil && !strings.Contains(err.Error(), c.field) {
			t.Errorf("%+v of %s, said %t: %s, %v", c.p, c.class, c.said, got, err)
		}
	}
	for name, p := range map[string]Preemptible{
		"then": {Then: 9}, "grace": {Then: ThenDelete, Grace: MaxGrace + 1},
		"no then": {Grace: time.Second}, "before": {Then: ThenDelete, Grace: -1},
	} {
		b := Boot{Flavor: "f"}
		b.Preempt(p)
		if err := b.Check(); err == nil || !strings.Contains(err.Error(), "preemptible.") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for beside, other := range map[string]Boot{
		"host": {Flavor: "f", Host: "h1"}, "on_no_capacity": {Flavor: "f", OnNoCapacity: FailAtOnce},
	} {
		other.Preempt(Preemptible{Then: ThenDelete})
		if err := other.Check(); err != nil {
			t.Errorf("delete beside %s: %v", beside, err)
		}
		other.Preempt(may)
		if err := other.Check(); err == nil || !strings.Contains(err.Error(), "preemptible.then") ||
			!strings.Contains(err.Error(), beside) {
			t.Errorf("requeue beside %s: %v", beside, err)
		}
	}
	b := Boot{Flavor: "f"}
	b.Preempt(may)
	if err := b.Check(); err != nil || b.Priority() != PriorityLow {
		t.Error(err)
	}
	set := Request{Op: OpBootSet, Project: "p", Instance: "00000000-0000-4000-8000-000000000001", Set: []SetBoot{
		{Instance: "00000000-0000-4000-8000-000000000001", Boot: b},
		{Instance: "00000000-0000-4000-8000-000000000002", Boot: b},
	}}
	if err := set.Check(); err == nil || !strings.Contains(err.Error(), "preemptible") {
		t.Errorf("of a set: %v", err)
	}
	b.Rules.Priority = PriorityNormal
	if err := b.Check(); err == nil || !strings.Contains(err.Error(), "priority") {
		t.Errorf("of normal priority: %v", err)
	}
}

// A notice is that of the instance until it is over; the record keeps it, and what was asked for has none of it.
func TestNotices(t *testing.T) {
	var i Instance
	i.Boot.Preempt(Preemptible{Then: ThenDelete})
	was := *i.Boot.Rules
	n := &Notice{At: time.Unix(1, 0), Queue: "q", Class: PriorityHigh}
	i.GiveNotice(n)
	i.SetMadeRoom(2)
	if i.Notice() != n || *i.Boot.Asked().Rules != was {
		t.Errorf("%+v, asked as %+v", i.Notice(), *i.Boot.Asked().Rules)
	}
	i.EndNotice(time.Unix(2, 0))
	if i.Notice() != nil || !i.LastNotice().Over.Equal(time.Unix(2, 0)) || !n.Over.IsZero() {
		t.Errorf("%+v is %+v", n, i.LastNotice())
	}
	var other Instance
	other.SetMadeRoom(1)
	if other.SetMadeRoom(0); other.Boot.Rules != nil {
		t.Errorf("rules that say nothing are %+v", other.Boot.Rules)
	}
}

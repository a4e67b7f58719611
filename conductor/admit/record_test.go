// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// TestRecordsSayWhen: what happened when is in the record, and of an attempt only as long as it is that.
func TestRecordsSayWhen(t *testing.T) {
	s := newStory(t)
	times := func(line string, queued, starting, active, ended int) {
		t.Helper()
		s.now = s.now.Add(time.Second)
		s.do(t, line)
		inst := s.state.Instance(long(strings.Fields(line)[1]))
		got := []time.Time{inst.QueuedAt, inst.StartingAt, inst.ActiveAt, inst.EndedAt}
		for i, n := range []int{queued, starting, active, ended} {
			want := epoch.Add(time.Duration(n) * time.Second)
			if n == 0 {
				want = time.Time{}
			}
			if !got[i].Equal(want) {
				t.Errorf("%s: %v", line, got)
				break
			}
		}
	}
	times("boot 1", 1, 0, 0, 0)
	times("claim 1 host=h1", 1, 2, 0, 0)
	times("failed 1 host=h1", 1, 0, 0, 0)
	times("claim 1 host=h2 attempt=2", 1, 4, 0, 0)
	times("started 1 host=h2 attempt=2", 1, 4, 5, 0)
	times("changed 1 host=h2 attempt=2 power=stopped", 1, 4, 5, 0)
	times("delete 1", 1, 4, 5, 0)
	times("gone 1 host=h2 attempt=2", 1, 4, 5, 8)
	times("boot 2 flavor=none", 0, 0, 0, 9)
}

// TestTheNextAttemptBeginsAnew: nothing of the one before is in the record, but why it failed.
func TestTheNextAttemptBeginsAnew(t *testing.T) {
	s := newStory(t)
	s.tell(t, `boot 1
		claim 1 host=h1 journal=j1 fence=3
		started 1 host=h1 journal=j1
		changed 1 host=h1 journal=j1 power=stopped why=GuestShutdown
		start 1 command=c
		changed 1 host=h1 journal=j1 power=stopped why=GuestShutdown command=c
		stop 1 command=d
		confirm host=h1
		fence host=h1 fence=4`)
	is := *s.state.Instance(long("1"))
	want := compute.Instance{
		ID: is.ID, Project: "p", Version: is.Version, State: compute.StateQueued, Attempt: 2, Boot: is.Boot,
		Queue: "m1.small", Resources: is.Resources,
		Reason: is.Reason, AcceptedAt: epoch, QueuedAt: epoch, ActiveAt: epoch, ChangedAt: epoch, Deadline: is.Deadline,
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Error(diff)
	}
}

// TestTheNextAttemptIsAsLarge: what a dead host had is built elsewhere with what it was given, whatever its flavor has
// become since. That is what its quota counts, and what its user asked for.
func TestTheNextAttemptIsAsLarge(t *testing.T) {
	s := newStory(t)
	s.tell(t, "boot 1\nclaim 1 host=h1\nstarted 1 host=h1")
	was := s.state.Instance(long("1")).Resources
	larger, q := s.view.Flavors["m1.small"], s.view.Queues["m1.small"]
	larger.Resources = compute.Resources{compute.VCPU: 2}
	q.Resources = larger.Resources
	s.view.Flavors["m1.small"], s.view.Queues["m1.small"] = larger, q
	s.tell(t, "list m1.small\nfence host=h1")
	b, is := s.builds[long("1")], s.state.Instance(long("1"))
	if b.Attempt != 2 || !is.Resources.Equal(was) || !b.Resources.Equal(was) {
		t.Errorf("it had %s; now it has %s, and attempt %d is published with %s", was, is.Resources, b.Attempt, b.Resources)
	}
}

// TestRequestsThatMakeNoSenseAreRejected: and nothing is written about them.
func TestRequestsThatMakeNoSenseAreRejected(t *testing.T) {
	boot := &compute.Boot{Flavor: "m1.small"}
	for name, r := range map[string]compute.Request{
		"no boot":              {Op: compute.OpBoot, Project: "p", Instance: long("1")},
		"a boot of no project": {Op: compute.OpBoot, Instance: long("1"), Boot: boot},
		"a boot of no id":      {Op: compute.OpBoot, Project: "p", Instance: "1", Boot: boot},
		"a delete of no id":    {Op: compute.OpDelete, Project: "p", Instance: "1"},
		"nobody's delete":      {Op: compute.OpDelete, Instance: long("1")},
		"no host":              {Op: compute.OpFence},
	} {
		out := fresh(t).step(Requested{Request: r}, catalog(), epoch)
		if out.Rejected == nil || out.Rejected.Detail == "" || len(out.Changed)+len(out.Effects) > 0 {
			t.Errorf("%s: %+v", name, out)
		}
	}
	out := fresh(t).step(Requested{Request: compute.Request{Op: compute.OpDelete, Project: "p",
		Instance: long("1"), Boot: boot}}, catalog(), epoch)
	if len(out.Changed) != 1 || out.Changed[0].State != compute.StateDeleted {
		t.Errorf("a delete with a boot in it: %+v", out)
	}
}

// TestWhatARequestLeaves: a request that says no time came now; what is wrong with one is not kept, but for its name.
func TestWhatARequestLeaves(t *testing.T) {
	view := catalog()
	view.Flavors["m1.odd"] = compute.Flavor{
		Name: "m1.odd", Resources: compute.Resources{compute.VCPU: 1}, Required: []compute.Trait{"A"},
		Forbidden: []compute.Trait{"B"},
	}
	boot := func(b compute.Boot) *compute.Instance {
		c := fresh(t)
		c.step(Requested{Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: long("1"), Boot: &b}},
			view, epoch)
		return c.Instance(long("1"))
	}
	odd := boot(compute.Boot{Flavor: "m1.odd"})
	if !odd.AcceptedAt.Equal(epoch) || odd.Required[0] != "A" || odd.Forbidden[0] != "B" {
		t.Errorf("%+v", odd)
	}
	view.Capabilities["disk"] = compute.Capability{Axis: "disk", Values: []compute.CapabilityValue{
		{Value: "fast", Requires: []compute.Trait{"C", "A"}, Consumes: compute.Resources{compute.DiskGB: 3}},
	}}
	with := view.Flavors["m1.odd"]
	with.Capabilities = []compute.AxisName{"disk"}
	view.Flavors["m1.odd"] = with
	fast := boot(compute.Boot{Flavor: "m1.odd", With: compute.Choices{"disk": "fast"}})
	if !slices.Equal(fast.Required, []compute.Trait{"A", "C"}) || fast.Resources[compute.DiskGB] != 3 ||
		fast.Resources[compute.VCPU] != 1 {
		t.Errorf("%+v", fast)
	}
	wrong := boot(compute.Boot{Name: "web" + strings.Repeat("ü", 10_000)})
	if name := wrong.Boot.Name; wrong.State != compute.StateError || !strings.HasPrefix(name, "webü") ||
		len(name) > compute.MaxNameLength || !utf8.ValidString(name) {
		t.Errorf("%s with name %q", wrong.State, name)
	}
}

// TestDeleteIsRemembered: an instance that a user deleted says so.
func TestDeleteIsRemembered(t *testing.T) {
	for lines, want := range map[string]bool{
		"delete 1":                               true,
		"boot 1\ndelete 1":                       true,
		"boot 1\nclaim 1 host=h1\ndelete 1":      true,
		"boot 1 flavor=none\ndelete 1":           true,
		"boot 1 flavor=none":                     false,
		"boot 1\nclaim 1 host=h1":                false,
		"boot 1 host=h1\nforget host=h1":         false,
		"boot 1\nclaim 1 host=h1\nfence host=h1": false,
	} {
		s := newStory(t)
		if s.tell(t, lines); s.state.Instance(long("1")).Delete != want {
			t.Errorf("%q: deleted %t", lines, !want)
		}
	}
}

// TestLoadDropsUserDataOfTheEnded: records of before had it.
func TestLoadDropsUserDataOfTheEnded(t *testing.T) {
	for state, kept := range map[compute.State]bool{compute.StateQueued: true, compute.StateError: false,
		compute.StateDeleted: false} {
		s := New(Defaults())
		inst := &compute.Instance{ID: long("1"), Project: "p", State: state, Version: 1, Attempt: 1, Queue: "m1.small"}
		inst.Boot.UserData, inst.Boot.Sealed = "secret", compute.Sealed("sealed")
		if s.Load(inst, catalog(), epoch); (inst.Boot.UserData != "") != kept || (inst.Boot.Sealed != "") != kept {
			t.Errorf("%s: user data %q, sealed %q", state, inst.Boot.UserData, inst.Boot.Sealed)
		}
	}
}

// TestPausesAreBounded: however often something failed.
func TestPausesAreBounded(t *testing.T) {
	o := Defaults()
	if got := o.retry(1000); got != o.RetryMax {
		t.Errorf("after 1000 failures it waits %s", got)
	}
	if got := o.republish(1000); got != o.RepublishMax {
		t.Errorf("after 1000 publications it waits %s", got)
	}
}

// TestResendOfNothing: an id that is not known here answers nothing.
func TestResendOfNothing(t *testing.T) {
	if out := New(Defaults()).Resend(long("1"), catalog(), epoch); len(out.Effects)+len(out.Changed) != 0 {
		t.Errorf("%+v", out)
	}
}

// TestNobodyTakesWhatIsNotPublished: that nobody has taken it counts from when anybody can.
func TestNobodyTakesWhatIsNotPublished(t *testing.T) {
	s := New(Defaults())
	later := epoch.Add(time.Minute)
	inst := &compute.Instance{Boot: compute.Boot{OnNoCapacity: compute.FailAtOnce}, ChangedAt: epoch}
	if due := s.noCapacity(&entry{inst: inst, pub: &publication{}}); !due.Equal(epoch.Add(s.opts.NoCapacityAfter)) {
		t.Errorf("published, it ends at %v", due)
	}
	s.loadedAt = epoch.Add(time.Hour) // by a broker's clock that was set back since
	if due := s.noCapacity(&entry{inst: inst, pub: &publication{}}); !due.Equal(epoch.Add(s.opts.NoCapacityAfter)) {
		t.Errorf("published since the takeover, it ends at %v", due)
	}
	inst.PublishAt = later
	if due := s.noCapacity(&entry{inst: inst, pub: &publication{}}); !due.Equal(later.Add(s.opts.NoCapacityAfter)) {
		t.Errorf("to be published at %v, it ends at %v", later, due)
	}
}

// TestARecordOfNoHost: a record that should have a host and has none ends nothing.
func TestARecordOfNoHost(t *testing.T) {
	s := New(Defaults())
	inst := &compute.Instance{ID: long("1"), Project: "p", State: compute.StateStarting, Version: 1, Attempt: 1}
	s.Load(inst, catalog(), epoch)
	if due := s.NextDue(); !due.IsZero() {
		t.Errorf("something is due at %v", due)
	}
}

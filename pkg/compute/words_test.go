// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReasonInWords(t *testing.T) {
	for want, r := range map[string]*Reason{
		"":         nil,
		"HostLost": {Code: HostLost},
		"QuotaExceeded (VCPU: limit 4, used 3, asked 2)": {Code: QuotaExceeded, Resource: VCPU, Limit: 4, Used: 3, Asked: 2},
		"QuotaExceeded (VCPU of priority high: limit 4, used 3, asked 2)": {
			Code: QuotaExceeded, Resource: VCPU, Part: QuotaOf(PriorityHigh), Limit: 4, Used: 3, Asked: 2,
		},
		"WaitingForCapacity (position 1 of 1)": {Code: WaitingForCapacity, Depth: 1},
		"WaitingForCapacity (position 3 of 9)": {Code: WaitingForCapacity, Position: 2, Depth: 9},
		"BuildFailed (host h, attempt 1, class host, no luck)": {
			Code: BuildFailed, Host: "h", Attempt: 1, Class: FailureHost, Detail: "no luck",
		},
		"Preempted (host h, attempt 2)":                  {Code: Preempted, Host: "h", Attempt: 2},
		"NoEligibleHost (of 1 hosts 1 silent)":           {Code: NoEligibleHost, Hosts: HostCounts{Silent: 1}},
		"NoEligibleHost (of 3 hosts 2 full, 1 draining)": {Code: NoEligibleHost, Hosts: HostCounts{Full: 2, Draining: 1}},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	all := HostCounts{NeverFits: 1, Silent: 2, Disabled: 3, Draining: 4, Quarantined: 5, Full: 6, Avoided: 7, Eligible: 8}
	if got := all.String(); got != "8 eligible, 6 full, 7 avoided, 3 disabled, 4 draining, 2 silent, 5 quarantined, "+
		"1 too small or lacking a trait" || all.Total() != 36 {
		t.Errorf("%s, in all %d", got, all.Total())
	}
	if got := (HostCounts{}).String(); got != "none" {
		t.Error(got)
	}
	if !FailureHost.Retryable() || FailureRequest.Retryable() || FailureRequest.String() != "request" {
		t.Error("classes of failures")
	}
}

// What small numbers are called is on the wire, in metrics or on command lines.
func TestNames(t *testing.T) {
	for want, s := range map[string]fmt.Stringer{
		"claim": ReportClaim, "preempt": ReportPreempt, "grant": CommandGrant, "alone": CommandAlone, "reserve": OpReserve,
		"boot": OpBoot, "not-kept": ConsoleNotKept, "silent": HostSilent, "paused": PowerPaused, "closed": QueueClosed,
		"pack": Pack, "requeue": ThenRequeue, "fail": FailAtOnce, "unknown": StateUnknown, "timeout": KindTimeout,
		"report(10)":      ReportPreempt + 1,
		"built elsewhere": FateRebuilt, "ended": FateEnded, "deleted": FateDeleted, "new": Fate("new"),
		"waits for this host, which it is pinned to": FateWaits,
		"journal j, started 1970-01-01T00:00:01Z":    Voice{"j", time.Unix(1, 0)},
	} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
	if diff := cmp.Diff([]PowerState{PowerUnknown, PowerRunning, PowerStopped, PowerPaused}, PowerStates()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]NoCapacity{WaitForCapacity, FailAtOnce}, NoCapacities()); diff != "" {
		t.Error(diff)
	}
	for n := range weigherNames {
		if w, err := ParseWeigher(Weigher(n).String()); err != nil || w != Weigher(n) {
			t.Errorf("%s is read as %s: %v", Weigher(n), w, err)
		}
	}
	if _, err := ParseWeigher("heaviest"); KindOf(err) != KindInvalid {
		t.Error(err)
	}
	for s := range States() {
		if got, err := ParseState(State(s + 1).String()); err != nil || got != State(s+1) {
			t.Errorf("%s is read as %s: %v", State(s+1), got, err)
		}
	}
	for _, s := range []string{"none", "new"} {
		if got, err := ParseState(s); KindOf(err) != KindInvalid || got != StateNone {
			t.Errorf("%q is read as %s: %v", s, got, err)
		}
	}
	for s, want := range map[string]NoCapacity{"": WaitForCapacity, "wait": WaitForCapacity, "fail": FailAtOnce, "no": 0} {
		if got, err := ParseNoCapacity(s); got != want || (err != nil) != (s == "no") {
			t.Errorf("%q is read as %s: %v", s, got, err)
		}
	}
}

func TestStates(t *testing.T) {
	counts := []State{StateQueued, StateStarting, StateActive, StateDeleting}
	onHost, ended := counts[1:], []State{StateDeleted, StateError}
	for s := StateNone; s <= StateUnknown; s++ {
		if s.Counts() != slices.Contains(counts, s) || s.OnHost() != slices.Contains(onHost, s) ||
			s.Ended() != slices.Contains(ended, s) {
			t.Errorf("%s counts %t, is on its host %t, has ended %t", s, s.Counts(), s.OnHost(), s.Ended())
		}
		if s != StateNone && !slices.Contains(States(), s) {
			t.Errorf("%s is not shown", s)
		}
	}
	host := []CommandOp{CommandHost, CommandFenced, CommandLook, CommandTwins, CommandBegun, CommandAlone}
	for o := CommandNone; o <= CommandAlone; o++ {
		if o.AboutHost() != slices.Contains(host, o) {
			t.Errorf("%s is about its host: %t", o, o.AboutHost())
		}
	}
}

func TestCommanded(t *testing.T) {
	i := Instance{Command: &PowerCommand{Op: OpStop, Command: "c"}, Answer: &PowerAnswer{Op: OpReboot, Command: "a"}}
	for c, want := range map[CommandID]RequestOp{"c": OpStop, "a": OpReboot, "x": OpNone, "": OpNone} {
		if op, was := i.Commanded(c); op != want || was != (want != OpNone) {
			t.Errorf("%q: %s, %t", c, op, was)
		}
	}
	none := Instance{Command: &PowerCommand{Op: OpStop}, Answer: &PowerAnswer{Op: OpReboot}}
	if _, was := none.Commanded(""); was {
		t.Error("a command without an id is meant by none")
	}
	if _, was := (&Instance{}).Commanded("c"); was {
		t.Error("there was no command")
	}
}

// What is said of limits and sizes is said of each.
func TestLimits(t *testing.T) {
	b := Boot{
		Name: "1", Image: "12", UserData: "123", Sealed: "1234", SSHKeys: []string{"123", "123", "123", "123", "12345678"},
		Metadata: map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "1"}, Avoid: make([]HostID, 8),
		With: Choices{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": "", "8": "", "9": ""}, Attempts: 10,
	}
	var sizes []int
	for _, s := range b.sizes() {
		sizes = append(sizes, s.got)
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 20, 6, 7, 8, 9, 10}, sizes); diff != "" {
		t.Error(diff)
	}
	got := BootLimits()
	if len(got) != 12 || got[0] != (Limit{"name", "bytes", MaxNameLength}) ||
		got[11].Most != int64(MaxDeadline/time.Second) {
		t.Errorf("%v", got)
	}
}

func TestVoices(t *testing.T) {
	at := time.Unix(1e9, 0)
	v := Voice{"j", at}
	if !v.Same(Voice{"j", at.UTC()}) || v.Same(Voice{"k", at}) || v.Same(Voice{"j", at.Add(1)}) {
		t.Error("which voices are the same")
	}
	if (Report{Journal: "j", Started: at}).Voice() != v || (Beacon{Journal: "j", Started: at}).Voice() != v {
		t.Error("who says it")
	}
	if s := (*Saving)(nil); s.For() != "" || (&Saving{Queue: "q"}).For() != "q" {
		t.Error("what a host saves for")
	}
}

func TestPlaces(t *testing.T) {
	p := Place{Devices: []PCIAddress{"a"}, Nodes: []int{1}}
	c := p.Clone()
	if diff := cmp.Diff(p, c); diff != "" {
		t.Error(diff)
	}
	if c.Devices[0], c.Nodes[0] = "b", 2; p.Devices[0] != "a" || p.Nodes[0] != 1 {
		t.Error("a copy is the same")
	}
	if d := (PCIDevice{Class: 0x060400, Driver: "vfio-pci"}); !d.Bridge() || !d.Ready() {
		t.Errorf("%+v", d)
	}
	if d := (PCIDevice{Class: 0x030200, Driver: "nvidia"}); d.Bridge() || d.Ready() {
		t.Errorf("%+v", d)
	}
}

func TestQueuesOfHosts(t *testing.T) {
	q := Queue{Required: []Trait{"A", "B"}, Forbidden: []Trait{"C", "D"}}
	for _, c := range []struct {
		has  string
		want bool
	}{{"AB", true}, {"A", false}, {"B", false}, {"ABC", false}, {"ABD", false}, {"ABE", true}} {
		has := map[Trait]bool{}
		for _, r := range c.has {
			has[Trait(r)] = true
		}
		if q.Accepts(has) != c.want {
			t.Errorf("%s: %t", c.has, !c.want)
		}
	}
	for _, c := range []struct {
		q    Queue
		want bool
	}{
		{Queue{State: QueueClosed}, true}, {Queue{}, false}, {Queue{State: QueueClosed, TopicID: "t"}, false},
	} {
		if c.q.CannotBeMade() != c.want {
			t.Errorf("%+v cannot be made: %t", c.q, !c.want)
		}
	}
	a := QueueAdvice{Depth: 5, Stray: 2}
	if a.Wanted() != UsualWaiters+5 || a.Queued() != 3 || (QueueAdvice{Waiters: 2, Stray: 9, Depth: 4}).Queued() != 0 ||
		(QueueAdvice{Waiters: 2, Depth: 4}).Wanted() != 6 {
		t.Errorf("%d are wanted, %d are queued", a.Wanted(), a.Queued())
	}
	b := Build{Instance: id(1)}
	if each := b.Each(); len(each) != 1 || each[0].Instance != id(1) {
		t.Errorf("%v", each)
	}
	if each := (&Build{Parts: []Build{{Instance: id(2)}}}).Each(); len(each) != 1 || each[0].Instance != id(2) {
		t.Errorf("%v", each)
	}
}

func TestSums(t *testing.T) {
	a, b := Resources{VCPU: 2, MemoryMB: 1}, Resources{VCPU: 3, DiskGB: 4}
	sum := a.Clone()
	sum.Add(b)
	for what, c := range map[string]struct{ got, want Resources }{
		"add":   {sum, Resources{VCPU: 5, MemoryMB: 1, DiskGB: 4}},
		"plus":  {a.Plus(b), Resources{VCPU: 5, MemoryMB: 1, DiskGB: 4}},
		"minus": {a.Minus(b), Resources{VCPU: -1, MemoryMB: 1, DiskGB: -4}},
		"max":   {a.Max(b), Resources{VCPU: 3, MemoryMB: 1, DiskGB: 4}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	for _, c := range []struct {
		free Resources
		want bool
	}{
		{Resources{VCPU: 2, MemoryMB: 1}, true}, {Resources{VCPU: 3, MemoryMB: 9}, true}, {Resources{VCPU: 2}, false},
		{Resources{VCPU: 1, MemoryMB: 1}, false},
	} {
		if a.FitsIn(c.free) != c.want {
			t.Errorf("%s fits in %s: %t", a, c.free, !c.want)
		}
	}
	if s := (Resources{VCPU: 2, MemoryMB: 0, DiskGB: 1}).String(); s != "DISK_GB=1 VCPU=2" {
		t.Error(s)
	}
}

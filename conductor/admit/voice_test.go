// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// spoke is a host with an instance of journal j1, and what is heard on it: a beacon at so many seconds.
func spoke(t *testing.T) (s *story, h *host, beacon func(second int, by compute.Voice)) {
	t.Helper()
	s = newStory(t)
	s.tell(t, "boot 1\nclaim 1 host=h1 journal=j1\nstarted 1 host=h1 journal=j1")
	h = s.state.hosts["h1"]
	clear(h.voices) // that of the claim
	return s, h, func(second int, by compute.Voice) {
		s.now = epoch.Add(time.Duration(second) * time.Second)
		s.hear(HostHeard{Host: "h1", Voice: by})
	}
}

// TestTwinsAreThoseHeardSince: a process that begins to speak is no twin of one that was heard before it only.
func TestTwinsAreThoseHeardSince(t *testing.T) {
	j1, j2, j3 := compute.Voice{Journal: "j1"}, compute.Voice{Journal: "j2"}, compute.Voice{Journal: "j3"}
	s, h, beacon := spoke(t)
	s.view.Twins["h1"] = []compute.Voice{j1, j2}
	beacon(0, j1)
	beacon(10, j2)
	if len(h.together) != 0 {
		t.Errorf("j2 was heard after j1 only: %v", h.together)
	}
	beacon(20, j2)
	beacon(30, j1)
	both := func(when string) {
		t.Helper()
		if h.together[together{"j1", "j2"}].IsZero() || h.together[together{"j2", "j1"}].IsZero() {
			t.Errorf("%s: j1 and j2 spoke at one time: %v", when, h.together)
		}
	}
	both("when both were heard")
	beacon(40, j3)
	beacon(50, j2)
	beacon(55, j3)
	both("later")
	if !h.together[together{"j2", "j3"}].IsZero() || !h.together[together{"j3", "j2"}].IsZero() {
		t.Errorf("j3 is none of those that spoke at one time: %v", h.together)
	}
	// What j2 says does not count now, nor while j1 may speak: for long after both did, and not only until j1 was silent.
	st := &step{State: s.state.State, view: s.view, now: s.now}
	due := st.countsFrom(s.state.instances[long("1")], compute.Report{Host: "h1", Journal: "j2"})
	if want := epoch.Add(50*time.Second + 10*Defaults().SilentAfter); !due.Equal(want) {
		t.Errorf("it counts from %v, want %v", due, want)
	}
}

// TestSilenceWhileHostsCannotBeRead: while the hosts topic cannot be read, the agent that has the machine may
// speak all the time; what another one says of it counts once that could have been heard for as long as ever.
func TestSilenceWhileHostsCannotBeRead(t *testing.T) {
	s, _, beacon := spoke(t)
	beacon(0, compute.Voice{Journal: "j1"})
	st := &step{State: s.state.State, view: s.view, now: epoch.Add(70 * time.Second)}
	countsFrom := func(journal compute.JournalID) time.Time {
		return st.countsFrom(s.state.instances[long("1")], compute.Report{Host: "h1", Journal: journal})
	}
	if due := countsFrom("j2"); !due.IsZero() {
		t.Errorf("j1 is silent, and j2 counts from %v", due)
	}
	st.view.HostsUnreadAt = epoch.Add(65 * time.Second)
	if due, want := countsFrom("j2"), st.view.HostsUnreadAt.Add(Defaults().SilentAfter); !due.Equal(want) {
		t.Errorf("nobody could be heard until a moment ago, and j2 counts from %v, want %v", due, want)
	}
	if due := countsFrom("j1"); !due.IsZero() { // or no start fails while the hosts topic has no leader
		t.Errorf("j1 counts from %v", due)
	}
}

// TestTwinsOfOtherJournalsAreNoCopies: of a journal that one process of the twins has, another process is the same
// agent started again, and counts after the shorter time.
func TestTwinsOfOtherJournalsAreNoCopies(t *testing.T) {
	first := compute.Voice{Journal: "j1", Started: epoch}
	s, _, beacon := spoke(t)
	s.view.Twins["h1"] = []compute.Voice{first, {Journal: "j2", Started: epoch}}
	beacon(10, first)
	heard := s.now
	st := &step{State: s.state.State, view: s.view, now: s.now.Add(time.Second)}
	again := compute.Report{Host: "h1", Journal: "j1", Started: epoch.Add(time.Second)}
	due, want := st.countsFrom(s.state.instances[long("1")], again), heard.Add(Defaults().QuietAfter)
	if !due.Equal(want) {
		t.Errorf("it counts from %v, want %v", due, want)
	}
}

// TestAJournalThatWasSilentHasForgotten: one that comes back as long after it was heard as makes a host silent.
func TestAJournalThatWasSilentHasForgotten(t *testing.T) {
	for second, want := range map[int]bool{59: false, 60: true} {
		s, _, beacon := spoke(t)
		beacon(0, compute.Voice{Journal: "j1"})
		beacon(2, compute.Voice{Journal: "j2"}) // new, and asked what it has
		s.tell(t, "started 1 host=h1 journal=j1")
		clear(s.state.hosts["h1"].voices)
		beacon(2, compute.Voice{Journal: "j2"})
		s.state.hosts["h1"].voices[compute.Voice{Journal: "j1"}] = spoken{epoch, epoch}
		was := s.state.Instance(long("1")).Confirm
		beacon(second, compute.Voice{Journal: "j1"})
		if is := s.state.Instance(long("1")).Confirm; was || is != want {
			t.Errorf("after %d s it is asked what it has: %t, and before %t", second, is, was)
		}
	}
}

// TestWhyAStartFailedIsAskedAgain: said before it counted, it is asked for again, by every owner of the partition. Who
// answers may have a copy of the journal, so that the agent that was granted it is told to delete it.
func TestWhyAStartFailedIsAskedAgain(t *testing.T) {
	const failed = "failed 1 class=host message=a host=h1 journal=j1"
	s := newStory(t)
	s.tell(t, "boot 1\nclaim 1 host=h1 journal=j1")
	for range 2 {
		s.tell(t, "takeover\n"+failed)
		if is := s.state.Instance(long("1")); len(is.Failures) > 0 {
			t.Fatalf("it counts at once: %+v", is.Failures)
		}
	}
	if asked := s.tell(t, "+31s"); !strings.Contains(asked, "confirm 1") {
		t.Errorf("it is not asked again: %s", asked)
	}
	revoked := s.tell(t, failed+" started=2")
	is := s.state.Instance(long("1"))
	if len(is.Failures) != 1 || is.Failures[0].Message != "a" || !strings.Contains(revoked, "delete") {
		t.Errorf("the failures are %+v, and the host hears %s", is.Failures, revoked)
	}
}

// TestPositionOfTheFirst: where advice says that nothing waits, the one that does is the first.
func TestPositionOfTheFirst(t *testing.T) {
	v := catalog()
	for depth, want := range map[uint64]uint64{0: 0, 1: 0, 3: 2} {
		v.Advice["m1.small"] = compute.QueueAdvice{Depth: depth, Hosts: compute.HostCounts{Eligible: 1}}
		if r := v.capacity("m1.small"); r.Code != compute.WaitingForCapacity || r.Position != want {
			t.Errorf("of %d: %+v", depth, r)
		}
	}
}

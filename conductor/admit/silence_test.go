// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// TestSilenceCountsFromWhenHostsAreRead: before that nobody was listened to.
func TestSilenceCountsFromWhenHostsAreRead(t *testing.T) {
	s := New(Defaults())
	inst := &compute.Instance{ID: long("1"), Project: "p", State: compute.StateActive, Version: 1, Attempt: 1,
		Host: "h1", Claim: "c1"}
	s.Load(inst, catalog(), epoch)
	other := parse([]string{"2", "host=h2"})
	s.Step(Requested{Request: (&story{now: epoch}).request(t, "boot", parse([]string{"2"}))}, catalog(), epoch)
	s.Step(Reported{Report: report(t, "claim", other)}, catalog(), epoch)
	silent := func(after time.Duration, want bool) {
		t.Helper()
		s.Step(Tick{Until: epoch.Add(after)}, catalog(), epoch.Add(after))
		for id, h := range s.hosts {
			if h.silent != want {
				t.Errorf("after %s %s is silent: %t", after, id, h.silent)
			}
		}
	}
	silent(70*time.Second, false)
	read := epoch.Add(80 * time.Second)
	s.Step(HostsRead{}, catalog(), read)
	if loaded, came := s.hosts["h1"].since, s.hosts["h2"].since; !loaded.Equal(read) || !came.IsZero() {
		t.Errorf("voices are complete from %v and %v on", loaded, came)
	}
	silent(139*time.Second, false)
	silent(140*time.Second, true)
}

// TestAHostThatGoesHasNoTimer: not even if it is due as its last instance ends.
func TestAHostThatGoesHasNoTimer(t *testing.T) {
	s := newStory(t)
	s.tell(t, "boot 1 host=h1 deadline=60s\n+30s\nbeacon host=h1\n+30s")
	if due := s.state.NextDue(); len(s.state.hosts) != 0 || !due.Equal(s.now.Add(Defaults().KeepEnded)) {
		t.Errorf("%d hosts, and the next timer is due at %v", len(s.state.hosts), due)
	}
}

// TestAHostThatGoesEarlyHasNoTimer: its last instance ends before its silence is due.
func TestAHostThatGoesEarlyHasNoTimer(t *testing.T) {
	s := newStory(t)
	s.tell(t, "boot 1 host=h1\ndelete 1")
	if due := s.state.NextDue(); !due.Equal(s.now.Add(Defaults().KeepEnded)) {
		t.Errorf("the next timer is due at %v", due)
	}
}

// TestVoicesThatAreSilentAreForgotten: an agent that is started again and again is many of them.
func TestVoicesThatAreSilentAreForgotten(t *testing.T) {
	s := newStory(t)
	s.tell(t, "boot 1\nclaim 1 host=h1 journal=j0")
	for i := range 10 {
		s.now = s.now.Add(10 * time.Second)
		s.hear(HostHeard{Host: "h1", Voice: compute.Voice{Journal: "j", Started: epoch.Add(time.Duration(i))}})
	}
	if n := len(s.state.hosts["h1"].voices); n != 6 { // of the last minute
		t.Errorf("%d voices are known", n)
	}
}

// TestWhoHasIt: only what an agent says of itself makes it the one that has an instance.
func TestWhoHasIt(t *testing.T) {
	for last, want := range map[string]compute.JournalID{
		"started 1 host=h1 journal=j2":               "j2",
		"started 1 host=h1":                          "j1",
		"changed 1 host=h1 journal=j2 power=stopped": "j1",
	} {
		s := newStory(t)
		s.tell(t, "boot 1\nclaim 1 host=h1 journal=j1\nstarted 1 host=h1 journal=j1\n+61s\n"+last)
		if is := s.state.Instance(long("1")).Journal; is != want {
			t.Errorf("%s: journal %s has it, want %s", last, is, want)
		}
	}
}

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

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// TestOldPublicationsAreNoNews: only where the last publication of the current attempt landed matters.
func TestOldPublicationsAreNoNews(t *testing.T) {
	s := newStory(t)
	landed := func(in Published, want progress) {
		t.Helper()
		in.Instance, in.Offset = long("1"), 5
		s.hear(in)
		if is := s.state.instances[long("1")].pub.state; is != want {
			t.Errorf("%+v: it is %d, want %d", in, is, want)
		}
	}
	s.tell(t, "boot 1\nsent 1 failed\n+40s") // it is published again
	landed(Published{Attempt: 1, At: epoch}, pending)
	landed(Published{Attempt: 1, At: epoch.Add(Defaults().RepublishAfter)}, known)
	again := s.now
	s.tell(t, "claim 1 host=h1\nfence host=h1") // at once
	landed(Published{Attempt: 1, At: again}, pending)
	landed(Published{Attempt: 2, At: again.Add(time.Nanosecond)}, pending)
	landed(Published{Attempt: 2, At: again}, known)
}

// TestTheNextAttemptIsNotLate: how often the one before was published again does not count.
func TestTheNextAttemptIsNotLate(t *testing.T) {
	s := newStory(t)
	again := s.tell(t, "boot 1\nsent 1 failed\n+30s")
	next := s.tell(t, "claim 1 host=h1\nfailed 1 host=h1\n+1s\nsent 1 failed\n+30s")
	for said, want := range map[string]string{
		again: "+30s -> publish to m1.small: 1 attempt 1", next: "+30s -> publish to m1.small: 1 attempt 2",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%s\nwant %q", said, want)
		}
	}
}

// TestABrokerThatWasAwayPutsNothingOff: what did not reach its queue, or its host's stream, is tried as often as at
// first.
func TestABrokerThatWasAwayPutsNothingOff(t *testing.T) {
	for boot, want := range map[string]string{
		"boot 1": "+30s -> publish to m1.small: 1 attempt 1", "boot 1 host=h1": "+30s -> tell h1: build 1 attempt 1",
	} {
		s := newStory(t)
		said := s.tell(t, boot+strings.Repeat("\nsent 1 failed\n+30s", 4))
		if n := strings.Count(said, want); n != 4 {
			t.Errorf("%s, and %d of four times it is tried after 30 s:\n%s", boot, n, said)
		}
	}
}

// TestABackOffIsLoaded: what waits for its next attempt is not taken for work that may be lost.
func TestABackOffIsLoaded(t *testing.T) {
	s := New(Defaults())
	publish := epoch.Add(2 * time.Minute)
	s.Load(&compute.Instance{
		ID: long("1"), Project: "p", State: compute.StateQueued, Version: 2, Attempt: 2, Queue: "m1.small",
		Deadline: epoch.Add(time.Hour), PublishAt: publish,
	}, catalog(), epoch)
	if due := s.NextDue(); !due.Equal(publish) {
		t.Errorf("the next timer is due at %v", due)
	}
}

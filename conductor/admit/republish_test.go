// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"testing"
	"time"
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

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"testing"
)

// TestTakenIsRecorded: the record tells a machine that was queued again for other work from one that was deleted or lost
// while it had notice.
func TestTakenIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		ends  string
		times uint32
	}{
		"taken":                 {"+1m\ngone 1 host=h1", 1},
		"lost by its host":      {"failed 1 host=h1", 1},
		"deleted by its user":   {"delete 1\ngone 1 host=h1", 0},
		"its host is forgotten": {"forget host=h1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.tell(t, "boot 1 preemptible=requeue\nclaim 1 host=h1\nstarted 1 host=h1\npreempt 1 host=h1 queue=m1.small\n"+c.ends)
			inst := s.state.last[long("1")]
			n := inst.LastNotice()
			if n == nil || n.Over.IsZero() || n.Taken != (c.times > 0) || inst.TimesTaken() != c.times {
				t.Errorf("%+v", n)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestFateIsWhatHappens compares what compute.FateOf foresees for the instances of
// a dead host, in every state, with what then becomes of them.
func TestFateIsWhatHappens(t *testing.T) {
	const claimed, started = "; claim 1 host=h1", "; claim 1 host=h1; started 1 host=h1"
	for _, boot := range []string{
		"boot 1", "boot 1 host=h1", "boot 1 preemptible=delete", "boot 1 preemptible=requeue",
		"boot 1 preemptible=delete host=h1",
	} {
		for _, then := range []string{
			"", claimed, started, started + "; delete 1", started + "; hello host=h1 journal=j1",
			started + "; preempt 1 host=h1 queue=m1.small",
		} {
			if then == "" && !strings.Contains(boot, "host") {
				continue // nobody's yet
			}
			for _, op := range []compute.RequestOp{compute.OpFence, compute.OpForget} {
				for _, buildable := range []bool{true, false} {
					if !buildable && then == "" {
						continue // its queue stays as long as it waits in it
					}
					foreseen(t, boot+then, op, buildable)
				}
			}
		}
	}
}

func foreseen(t *testing.T, told string, op compute.RequestOp, buildable bool) {
	t.Helper()
	s := newStory(t)
	s.tell(t, strings.ReplaceAll(told, "; ", "\n"))
	if !buildable {
		clear(s.view.Flavors)
		clear(s.view.Queues)
	}
	before := *s.state.Instance(long("1"))
	fate, reason := compute.FateOf(&before, op, buildable)
	s.state.step(Requested{Request: compute.Request{Op: op, Host: "h1", At: s.now}}, s.view, s.now)
	after := s.state.Instance(long("1"))
	is, why := became(after)
	if is != fate || why != reason {
		t.Errorf("%s; %s, buildable %v: foreseen %q %s, it is %q %s", told, op, buildable, fate, reason, is, why)
	}
}

// became is the fate of an instance after the word that its host is dead.
func became(i *compute.Instance) (compute.Fate, compute.ReasonCode) {
	switch {
	case i.State == compute.StateDeleted:
		return compute.FateDeleted, ""
	case i.State == compute.StateError:
		return compute.FateEnded, i.Reason.Code
	case i.Boot.Host != "":
		return compute.FateWaits, ""
	}
	return compute.FateRebuilt, ""
}

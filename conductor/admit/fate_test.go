// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
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

// storyOf tells a story, after which nothing is offered any more if it is not buildable.
func storyOf(t *testing.T, told string, buildable bool) *story {
	t.Helper()
	s := newStory(t)
	s.tell(t, strings.ReplaceAll(told, "; ", "\n"))
	if !buildable {
		clear(s.view.Flavors)
		clear(s.view.Queues)
	}
	return s
}

func foreseen(t *testing.T, told string, op compute.RequestOp, buildable bool) {
	t.Helper()
	s := storyOf(t, told, buildable)
	before := *s.state.Instance(long("1"))
	fate, reason := compute.FateOf(&before, op, buildable)
	s.state.step(Requested{Request: compute.Request{Op: op, Host: "h1", At: s.now}}, s.view, s.now)
	after := s.state.Instance(long("1"))
	is, why := became(after)
	if is != fate || why != reason {
		t.Errorf("%s; %s, buildable %v: foreseen %q %s, it is %q %s", told, op, buildable, fate, reason, is, why)
	}
}

// TestFateOfASet compares what compute.FatesOf foresees for a set of three, of which some are on a dead host or pinned
// to it, with what becomes of all.
func TestFateOfASet(t *testing.T) {
	const (
		free, pinned = "boot-set 11 12 13", "boot-set 11 12 13 host=h1"
		two          = free + "; claim 11 host=h1; claim 12 host=h1; claim 13 host=h2"
		last         = free + "; claim 11 host=h2; claim 12 host=h1; claim 13 host=h1"
		here         = pinned + "; claim 11 host=h1; claim 12 host=h1; claim 13 host=h1"
	)
	for _, told := range []string{
		pinned, here, here + "; started 12 host=h1; started 13 host=h1",
		two, two + "; started 11 host=h1", two + "; started 12 host=h1",
		two + "; started 11 host=h1; started 12 host=h1; started 13 host=h2",
		two + "; started 11 host=h1; started 12 host=h1; started 13 host=h2; delete 12",
		two + "; started 11 host=h1; delete 12", two + "; started 12 host=h1; delete 11",
		two + "; started 12 host=h1; delete 13",
		last, last + "; started 13 host=h1", last + "; started 11 host=h2; started 13 host=h1",
		last + "; started 11 host=h2; started 12 host=h1; started 13 host=h1",
	} {
		for _, op := range []compute.RequestOp{compute.OpFence, compute.OpForget} {
			for _, buildable := range []bool{true, false} {
				if buildable || told != pinned { // its queue stays as long as it waits in it
					foreseenOfASet(t, told, op, buildable)
				}
			}
		}
	}
}

func foreseenOfASet(t *testing.T, told string, op compute.RequestOp, buildable bool) {
	t.Helper()
	s := storyOf(t, told, buildable)
	var all, lost []*compute.Instance
	for _, id := range []string{"11", "12", "13"} {
		is := *s.state.Instance(long(id))
		if all = append(all, &is); is.Host == "h1" || is.Boot.Host == "h1" {
			lost = append(lost, &is)
		}
	}
	foreseen := map[compute.InstanceID]string{}
	for _, f := range compute.FatesOf(lost, op,
		func(*compute.Instance) []*compute.Instance { return all }, func(*compute.Instance) bool { return buildable },
	) {
		foreseen[f.ID] = fmt.Sprint(string(f.Becomes), " ", f.Reason)
	}
	s.state.step(Requested{Request: compute.Request{Op: op, Host: "h1", At: s.now}}, s.view, s.now)
	for _, was := range all {
		is := ""
		if after := s.state.Instance(was.ID); after.Version != was.Version || slices.Contains(lost, was) {
			is = becameOfSet(after)
		}
		if is != foreseen[was.ID] {
			t.Errorf("%s; %s, buildable %v: of %s %q is foreseen, it is %q", told, op, buildable, short(was.ID),
				foreseen[was.ID], is)
		}
	}
}

// becameOfSet is the fate of one of a set, with its reason: what is being deleted on another host is so with its set.
func becameOfSet(i *compute.Instance) string {
	is, why := became(i)
	if i.State == compute.StateDeleting {
		is = compute.FateDeleted
	}
	if is == compute.FateDeleted && i.Reason != nil && i.Reason.Code == compute.SetFailed {
		why = compute.SetFailed
	}
	return fmt.Sprint(string(is), " ", why)
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

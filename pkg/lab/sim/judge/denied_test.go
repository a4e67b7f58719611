// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

func TestCheckDenied(t *testing.T) {
	deny := func(at schedule.Seconds, claim compute.ClaimID) Denied {
		c := compute.Command{Op: compute.CommandDeny, Instance: madeID, Attempt: 1, Claim: claim, At: moment(at)}
		return Denied{moment(at), "host-1", c}
	}
	for name, x := range map[string]struct {
		at    schedule.Seconds
		claim compute.ClaimID
		wrong bool
	}{
		"another claim": {5, "c2", false}, "before the grant": {1.5, "c1", true}, "while it runs": {30, "c1", true},
		"when it is over": {90, "c1", false},
	} {
		r := made()
		over := r.Log[len(r.Log)-1].Instance
		over.State, over.Version, over.ChangedAt = compute.StateDeleted, over.Version+1, moment(80)
		r.logged(80, over)
		r.Denials = []Denied{deny(x.at, x.claim)}
		found := checkDenied(r)
		if (len(found) == 1) != x.wrong || x.wrong && !strings.Contains(found[0].String(), "is denied at") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// What is in no record the next owner does not know, where it reads a repetition of the claim.
func TestCheckDeniedOfASet(t *testing.T) {
	// denied has the claim of one of a set be denied, and granted by the next owner at 4 s.
	denied := func(times int, taken schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			for n := range r.Log {
				r.Log[n].Instance.Boot.Rules = compute.RulesOf("", compute.Set{ID: "set-1", Size: 2}, compute.PriorityNormal)
			}
			claim := compute.Report{Op: compute.ReportClaim, Instance: madeID, Attempt: 1, Claim: "c1", Host: "host-1"}
			for range times {
				r.Claims = append(r.Claims, Claimed{moment(2.4), claim})
			}
			c := compute.Command{Op: compute.CommandDeny, Instance: madeID, Attempt: 1, Claim: "c1", At: moment(2.5)}
			r.Denials = []Denied{{moment(2.5), "host-1", c}}
			r.Owners = append(r.Owners, Owned{Seen: moment(taken)})
		}
	}
	sees(t, checkDenied, map[string]func(*Recording){
		"right: it is repeated":    denied(2, 2.8),
		"is denied at 2.500s, and": denied(1, 2.8),
		"right: its queue cannot be written": func(r *Recording) {
			denied(1, 2.8)(r)
			r.Schedule.Faults = []schedule.Fault{{At: 1, For: 2, Kind: schedule.FaultCode, Key: "Produce"}}
		},
		"right: it waits behind what could not be written": func(r *Recording) {
			denied(1, 2.8)(r)
			r.Schedule.Faults = []schedule.Fault{{At: 1, For: 1, Kind: schedule.FaultCode, Key: "Produce"}}
		},
		"is denied at 2.500s, and was granted at": func(r *Recording) {
			denied(1, 2.8)(r)
			r.Schedule.Faults = []schedule.Fault{{At: 3, For: 1, Kind: schedule.FaultCode, Key: "Produce"}}
		},
		"right: beside an effect, before its position is committed": func(r *Recording) {
			denied(1, 2.8)(r)
			hindered(r, 2.45)
		},
		"is denied at 2.500s, and was granted ": func(r *Recording) { // nothing ends the conductor
			denied(1, 2.8)(r)
			hindered(r, 2.45)
			r.Schedule.Faults = nil
		},
		"is denied at 2.500s, and was gr": func(r *Recording) { // it was answered long before
			denied(1, 2.8)(r)
			hindered(r, 2)
		},
		"is denied at 2.500s, and w": func(r *Recording) { // it follows from a change
			denied(1, 2.8)(r)
			hindered(r, 2.45)
			r.logged(2.45, compute.Instance{ID: "vm-9", Project: "red", ChangedAt: moment(2.45)})
		},
		"is denied at 2.500s, a": func(r *Recording) { // it is another partition's
			denied(1, 2.8)(r)
			hindered(r, 2.45)
			r.Schedule.World.Partitions = 64
			r.Effects[0].Project = "blue"
		},
		"is denied at 2.500s, and was":   denied(2, 2.2),
		"is denied at 2.500s, and was g": denied(2, 90),
		"right: it is denied by the rule of its group": func(r *Recording) {
			denied(1, 2.8)(r)
			r.Denials[0].Reason = &compute.Reason{Code: compute.GroupRule}
		},
		"right: its host was declared dead, for all that was known": func(r *Recording) {
			denied(1, 2.8)(r)
			r.Denials[0].Reason = &compute.Reason{
				Code: compute.AttemptOver, Detail: "the host was declared dead after it had claimed this",
			}
		},
		"right: so it is, and told late": func(r *Recording) {
			denied(1, 2.8)(r)
			r.Denials[0].Reason, r.Denials[0].Seen = &compute.Reason{Code: compute.GroupRule}, moment(30)
		},
		"is denied at 30.000s, and was granted": func(r *Recording) { // another owner has decided that since
			denied(1, 2.8)(r)
			r.Denials[0].Reason, r.Denials[0].Seen = &compute.Reason{Code: compute.GroupRule}, moment(30)
			r.Denials[0].At = moment(29)
		},
		"is denied at 30.000s, and was": func(r *Recording) { // late, and for good
			denied(1, 2.8)(r)
			r.Denials[0].Seen = moment(30)
		},
	})
}

// hindered has a conductor tell a host something of vm-9, and be hindered soon after.
func hindered(r *Recording, at schedule.Seconds) {
	r.Schedule.Faults = []schedule.Fault{{At: 3, For: 1, Kind: schedule.FaultCode, Key: "Produce"}}
	r.Effects = []Effect{{"red", "vm-9", moment(at)}}
}

// What conductors decide of a project and tell hosts counts, and what they put into queues; a denial is none of it.
func TestEffectsAreRecorded(t *testing.T) {
	r := NewRecording(schedule.Schedule{})
	const other = "0b9a2b1c-5f6e-4d3a-8c7b-112233445566"
	tell := func(op compute.CommandOp, p compute.Project, id compute.InstanceID) {
		c := compute.Command{Op: op, Project: p, Instance: id, Attempt: 1, Claim: "c1", At: moment(2)}
		r.AddRing("host-1", wire.EncodeCommand(c).To("host.host-1", 0))
	}
	tell(compute.CommandGrant, "red", madeID)
	tell(compute.CommandDeny, "red", other)
	b := compute.Build{Instance: other, Project: "red", Attempt: 1, At: moment(3)}
	r.ReadBuild(wire.EncodeBuild(b).To("queue.m1.small", 0))
	want := []Effect{{"red", madeID, moment(2)}, {"red", other, moment(3)}}
	if diff := cmp.Diff(want, r.Effects, cmpopts.EquateApproxTime(time.Millisecond)); diff != "" || len(r.Wrong) > 0 {
		t.Errorf("%s %v", diff, r.Wrong)
	}
}

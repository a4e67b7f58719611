// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// covers wants every value of the schema in the table but those in refused, and
// every word of the list, from first to last, but those in shown.
func covers[W ~uint8, S interface {
	~int32
	protoreflect.Enum
}](t *testing.T, table table[W, S], first, last W, shown []W, refused []S) {
	t.Helper()
	count := 0
	for w := first; w <= last; w++ {
		isShown := false
		for _, s := range shown {
			isShown = isShown || s == w
		}
		r := &reader{}
		back := table.in(r, "word", table.out(w))
		if came := r.err == nil && back == w; came == isShown {
			t.Errorf("%T %d: came back %t, only shown %t", w, w, came, isShown)
		}
		count++
	}
	if count == 0 {
		t.Errorf("%T: no words", first)
	}
	values := S(0).Descriptor().Values()
	for i := range values.Len() {
		s := S(values.Get(i).Number())
		isRefused := false
		for _, n := range refused {
			isRefused = isRefused || s == n
		}
		r := &reader{}
		if table.in(r, "value", s); (r.err != nil) != isRefused {
			t.Errorf("%T %v: refused with %v, wanted refused %t", s, s, r.err, isRefused)
		}
	}
	r := &reader{}
	if table.in(r, "value", S(values.Len()+100)); r.err == nil {
		t.Errorf("%T: a value of a later schema is taken for %v", first, table.in(r, "value", S(values.Len()+100)))
	}
}

func TestEnums(t *testing.T) {
	covers(t, noCapacities, compute.WaitForCapacity, compute.FailAtOnce, nil, nil)
	covers(t, failureClasses, compute.FailureUnknown, compute.FailureUnknownHere, nil, nil)
	covers(t, reportOps, compute.ReportClaim, compute.ReportPreempt, nil, []pb.ReportOp{0})
	covers(t, commandOps, compute.CommandGrant, compute.CommandAlone, nil, []pb.CommandOp{0})
	covers(t, consoleRefusals, compute.ConsoleRead, compute.ConsoleFailed, nil, nil)
	covers(t, states, compute.StateNone, compute.StateUnknown,
		[]compute.State{compute.StateAccepted, compute.StateUnknown}, nil)
	covers(t, powerStates, compute.PowerUnknown, compute.PowerPaused, nil, nil)
	covers(t, powerOps, compute.OpStop, compute.OpReboot, nil, []pb.PowerOp{0})
	covers(t, hostStates, compute.HostEnabled, compute.HostSilent, []compute.HostState{compute.HostSilent},
		[]pb.HostState{0})
	covers(t, weighers, compute.Spread, compute.Pack, nil, nil)
	covers(t, queueStates, compute.QueueOpen, compute.QueueClosed, nil, []pb.QueueState{0})
}

// A list that grew behind the back of the test above has a name for the next
// number.
func TestEnumsAreWhole(t *testing.T) {
	for last, beyond := range map[string]string{
		compute.FailAtOnce.String():         (compute.FailAtOnce + 1).String(),
		compute.FailureUnknownHere.String(): (compute.FailureUnknownHere + 1).String(),
		compute.ReportPreempt.String():      (compute.ReportPreempt + 1).String(),
		compute.CommandAlone.String():       (compute.CommandAlone + 1).String(),
		compute.ConsoleFailed.String():      (compute.ConsoleFailed + 1).String(),
		compute.StateUnknown.String():       (compute.StateUnknown + 1).String(),
		compute.PowerPaused.String():        (compute.PowerPaused + 1).String(),
		compute.OpReserve.String():          (compute.OpReserve + 1).String(),
		compute.HostSilent.String():         (compute.HostSilent + 1).String(),
		compute.QueueClosed.String():        (compute.QueueClosed + 1).String(),
	} {
		if beyond[len(beyond)-1] != ')' {
			t.Errorf("after %q comes %q: add it to the schema, the table and the tests", last, beyond)
		}
	}
}

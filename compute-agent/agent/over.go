// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// overClaims are the last claims that were given back, so that a grant that comes too late is answered with that, and
// the last that failed, so that a conductor that asks again hears why. Their tasks are forgotten. Each list forgets its
// oldest.
type overClaims struct {
	given  lastClaims[struct{}]
	failed lastClaims[task.Failure]
}

type claimKey struct {
	instance compute.InstanceID
	attempt  compute.Attempt
	claim    compute.ClaimID
}

func newOverClaims(s journal.State) overClaims {
	var o overClaims
	for _, x := range s.Given {
		o.given.keep(claimKey{x.Instance, x.Attempt, x.Claim}, struct{}{})
	}
	for _, x := range s.Failed {
		o.failed.keep(claimKey{x.Instance, x.Attempt, x.Claim}, task.Failure{Class: x.Why.Class, Message: x.Why.Message})
	}
	return o
}

// past is how the claim of a command ended; nil: nothing is known of it.
func (o *overClaims) past(c compute.Command) *task.Past {
	k := claimKey{c.Instance, c.Attempt, c.Claim}
	if why, ok := o.failed.of[k]; ok {
		return &task.Past{Failed: &why}
	}
	if _, ok := o.given.of[k]; ok {
		return &task.Past{}
	}
	return nil
}

// lastClaims is what is known of the last claims.
type lastClaims[T any] struct {
	order []claimKey
	of    map[claimKey]T
}

func (l *lastClaims[T]) keep(k claimKey, x T) {
	if l.of == nil {
		l.of = map[claimKey]T{}
	}
	if _, again := l.of[k]; !again {
		l.order = append(l.order, k)
	}
	if l.of[k] = x; len(l.order) > journal.Remembered {
		delete(l.of, l.order[0])
		l.order = l.order[1:]
	}
}

// rememberGiven has the journal know that a task's claim is given back. One that could not be prepared has failed as
// well, which is what a grant of it is to be answered with.
func (l *loop) rememberGiven(id compute.InstanceID) {
	t := l.tasks[id]
	if t.Broken != nil {
		l.rememberFailure(id, *t.Broken)
		return
	}
	l.over.given.keep(claimKey{t.Instance, t.Attempt, t.Claim}, struct{}{})
	l.unwritten.change.GiveBack = append(l.unwritten.change.GiveBack, journal.Given{
		Instance: t.Instance, Attempt: t.Attempt, Claim: t.Claim, At: time.Now().UTC(),
	})
}

// mostRemembered is how much of why a claim failed is remembered, in bytes: the disk may be full, and the journal has a
// little room to itself.
const mostRemembered = 300

// rememberFailure has the journal know why a task's claim failed.
func (l *loop) rememberFailure(id compute.InstanceID, why task.Failure) {
	t := l.tasks[id]
	why.Message = hypervisor.Shorten(why.Message, mostRemembered)
	l.over.failed.keep(claimKey{t.Instance, t.Attempt, t.Claim}, why)
	l.unwritten.change.Fail = append(l.unwritten.change.Fail, journal.FailedClaim{
		Instance: t.Instance, Attempt: t.Attempt, Claim: t.Claim,
		Why: journal.Failure{Class: why.Class, Message: why.Message},
	})
}

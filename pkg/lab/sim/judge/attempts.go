// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/network"
)

// Broke is a call of a hypervisor that failed, as its agent heard it.
type Broke struct {
	At       time.Time
	Host     compute.HostID
	Instance compute.InstanceID
	Attempt  compute.Attempt
	Method   string
	Class    compute.FailureClass
	Image    bool // it is the image's fault
}

// AddFailedCall notes that a call failed, unless its caller gave it up or is dead.
func (r *Recording) AddFailedCall(
	h compute.HostID,
	id compute.InstanceID,
	a compute.Attempt,
	method string,
	err error,
) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, network.ErrDead) {
		return
	}
	b := Broke{At: time.Now(), Host: h, Instance: id, Attempt: a, Method: method}
	var e *hypervisor.Error
	if errors.As(err, &e) {
		b.Class, b.Image = e.Class, e.Image
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Broke = append(r.Broke, b)
}

const (
	// retryFirst and retryMost are how long a second attempt waits, and how long any waits
	// at most: each waits for twice as long as the one before.
	retryFirst, retryMost = time.Second, 30 * time.Second
)

// checkAttempts: what fails is tried again as often as was asked for and no more, each
// time later than the time before, and not at all if the request is at fault; each attempt
// that failed counts once, and the next hosts that get the work are told where it failed.
func checkAttempts(r *Recording) (wrong []Violation) {
	for _, v := range r.versions() {
		w, i, old, x := v.Written, v.Instance, v.old, v.asked
		if what := miscounted(old, i, x); what != "" {
			wrong = append(wrong, broken("attempts", i.ID, w.Seen, "%s %s", i.Boot.Name, what)...)
		}
		if i.Attempt > old.Attempt && old.Attempt > 0 && len(i.Failures) > len(old.Failures) {
			wrong = append(wrong, r.tooSoon(i)...)
		}
	}
	return append(wrong, r.hopeless()...)
}

// miscounted says what is wrong with the failures of a record; empty: nothing.
func miscounted(old, i compute.Instance, x Wanted) string {
	n, most := len(i.Failures), int(x.Boot.Attempts)
	lost := i.Reason != nil && (i.Reason.Code == compute.HostLost || i.Reason.Code == compute.Preempted)
	if n < len(old.Failures) && !(old.State == compute.StateActive && lost) {
		return fmt.Sprintf("has %d failures, and had %d", n, len(old.Failures))
	}
	seen := map[compute.Attempt]bool{}
	for _, f := range i.Failures {
		if seen[f.Attempt] || f.Attempt > i.Attempt {
			return fmt.Sprintf("counts a failure of attempt %d, of %d, that it has already, or that never was",
				f.Attempt, i.Attempt)
		}
		seen[f.Attempt] = true
	}
	requests := slices.ContainsFunc(
		i.Failures,
		func(f compute.Failure) bool { return f.Class == compute.FailureRequest },
	)
	switch {
	case i.State == compute.StateQueued && n >= most:
		return fmt.Sprintf("is tried again after %d failures, and was to be tried %d times", n, most)
	case i.State == compute.StateQueued && requests:
		return "is tried again, and no host can build it"
	case i.State != compute.StateError || i.Reason == nil:
	case i.Reason.Code == compute.AttemptsExhausted && n != most:
		return fmt.Sprintf("was given up after %d failures, and was to be tried %d times", n, most)
	case i.Reason.Code == compute.BuildFailed && old.State == compute.StateStarting && !requests:
		return "was given up after one failure that another attempt may not have"
	case i.Reason.Code == compute.BuildFailed && old.State == compute.StateActive:
		return "ran, and ends as one that did not start"
	}
	return ""
}

// tooSoon finds hosts that got an attempt, or began with it, before its time.
func (r *Recording) tooSoon(i compute.Instance) []Violation {
	pause := retryMost
	if n := len(i.Failures) - 1; n < 5 {
		pause = retryFirst << n
	}
	due := i.ChangedAt.Add(pause)
	for _, b := range r.Builds {
		if b.Instance != i.ID || b.Attempt != i.Attempt {
			continue
		}
		if b.Seen.Add(r.reckons()).Before(due) {
			return broken("attempts", i.ID, b.Seen,
				"attempt %d of %s comes into its queue at %s, and %d failed by %s: %s is to pass",
				i.Attempt, i.Boot.Name, r.At(b.Seen), len(i.Failures), r.At(i.ChangedAt), pause)
		}
		for _, f := range i.Failures {
			if !slices.Contains(b.Failed, f.Host) {
				return broken("attempts", i.ID, b.Seen,
					"attempt %d of %s comes into its queue and does not say that one failed on %s",
					i.Attempt, i.Boot.Name, f.Host)
			}
		}
	}
	for _, g := range r.Given {
		if g.Spec.Instance == i.ID && g.Spec.Attempt == i.Attempt && g.At.Add(r.reckons()).Before(due) {
			return broken(
				"attempts",
				i.ID,
				g.At,
				"attempt %d of %s begins on %s at %s, and %d failed by %s: %s is to pass",
				i.Attempt,
				i.Boot.Name,
				g.Host,
				r.At(g.At),
				len(i.Failures),
				r.At(i.ChangedAt),
				pause,
			)
		}
	}
	return nil
}

// hopeless is what is begun again though a hypervisor said that no host can build it, to
// an agent that nothing happened to.
func (r *Recording) hopeless() (wrong []Violation) {
	last := r.last()
	for _, b := range r.Broke {
		if b.Class != compute.FailureRequest || r.Schedule.Stops(b.Host) {
			continue
		}
		i := last[b.Instance]
		switch givesBack := i.Boot.Reservation() != "" || r.partNamed(i.Boot.Name); {
		case i.IsPlaceholder():
			continue // room is held on whatever host has it
		case r.anothers(b):
			continue // a copy of its record was claimed in vain, and what is said of that counts nothing
		case givesBack && (!r.Schedule.Decides() || r.overAlready(b)):
			continue // its set gave back before anybody heard of that, or it is in another room
		}
		for _, g := range r.Given {
			if g.Spec.Instance == b.Instance && g.Spec.Attempt > b.Attempt && g.At.After(b.At) {
				wrong = append(wrong, broken("attempts", b.Instance, g.At,
					"attempt %d begins on %s at %s, and at %s %s said of attempt %d that no host can build it",
					g.Spec.Attempt, g.Host, r.At(g.At), r.At(b.At), b.Host, b.Attempt)...)
				break
			}
		}
	}
	return wrong
}

// anothers says whether another host was granted the attempt of which a call failed.
func (r *Recording) anothers(b Broke) bool {
	return slices.ContainsFunc(r.Log, func(w Written) bool {
		i := w.Instance
		return i.ID == b.Instance && i.Attempt == b.Attempt && i.State.OnHost() && i.Host != b.Host
	})
}

// overAlready says whether a later attempt was decided before a conductor can have heard of a call that failed.
func (r *Recording) overAlready(b Broke) bool {
	by := b.At.Add(r.Schedule.Slack() + r.Schedule.World.Drifts())
	return slices.ContainsFunc(r.Log, func(w Written) bool {
		return w.Instance.ID == b.Instance && w.Instance.Attempt > b.Attempt && w.Instance.ChangedAt.Before(by)
	})
}

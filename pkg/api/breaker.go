// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// breaker is a circuit breaker before everything that waits for Kafka. It bounds how
// many requests wait, and keeps callers from waiting for a Kafka that does not answer:
//
//	answers ──one fails──▶ silent: all are refused at once,
//	   ▲                     │     one a second is let in as a probe
//	   └─────one succeeds────┘
type breaker struct {
	name  string // waits: "publishing"
	limit int

	mu           sync.Mutex
	inside       int
	silent       time.Time // since when nothing succeeded, though it was tried; zero: Kafka answers
	probing      bool      // a probe is under way
	failedProbes int       // probes in a row that were not answered
	nextProbe    time.Time // silent: the next probe is not let in before then
}

// outcome is what Kafka made of something.
type outcome uint8

const (
	abandoned outcome = iota // the caller went away, or Kafka was not asked: nothing is known
	answered
	unanswered
)

// probeEvery is how often a silent Kafka is probed.
const probeEvery = time.Second

// refusedFor is what a refused caller is told to wait. It is more than the
// time between probes, so that not everybody is back before the answer.
const refusedFor = 2 * time.Second

func newBreaker(what string, most int) *breaker { return &breaker{name: what, limit: most} }

// enter lets the caller in, which must call leave, or says why not. A probe finds out
// whether Kafka answers again, and should not take long.
func (b *breaker) enter(now time.Time) (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside >= b.limit {
		return false, tooMany("limits."+b.name, fmt.Sprint(b.limit), "so many wait for Kafka at this node already")
	}
	if !b.silent.IsZero() {
		if b.probing || now.Before(b.nextProbe) {
			return false, unansweredFor(now.Sub(b.silent))
		}
		b.probing, probe = true, true
	}
	b.inside++
	return probe, nil
}

// tooMany refuses what this node has no room for now.
func tooMany(field, value, message string) error {
	return &retryLater{status: http.StatusTooManyRequests, after: probeEvery, why: &compute.Error{
		Kind: compute.KindUnavailable, Field: field, Value: value, Message: message,
		Remedy: "try again in a moment; nothing was done",
	}}
}

// unansweredFor refuses what Kafka was not asked for.
func unansweredFor(d time.Duration) error {
	return &retryLater{after: refusedFor, why: &compute.Error{
		Kind:    compute.KindUnavailable,
		Message: "Kafka has not answered for " + max(d, time.Second).Truncate(time.Second).String(),
		Remedy:  "try again in a moment; nothing was done",
	}}
}

// leave says what came of it.
func (b *breaker) leave(now time.Time, probe bool, o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
	if probe {
		b.probing = false
	}
	switch o {
	case answered:
		b.silent, b.failedProbes = time.Time{}, 0
	case unanswered:
		if probe {
			b.failedProbes++
		}
		if first := b.silent.IsZero(); first || probe { // others say nothing new, and put no probe off
			if first {
				b.silent = now
			}
			b.nextProbe = now.Add(probeEvery)
		}
	}
}

// reset is called when something else has shown that Kafka answers.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent, b.failedProbes = time.Time{}, 0
}

// probeTimeout is how long a probe may take. A broker that has just come back is
// slow at first: were it always asked too briefly, it would never be believed.
func (b *breaker) probeTimeout() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return firstProbeTimeout << min(b.failedProbes, 3)
}

// state is how many are inside, and for how long Kafka has not answered.
func (b *breaker) state(now time.Time) (inside int, silent time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.silent.IsZero() {
		silent = max(now.Sub(b.silent), time.Nanosecond)
	}
	return b.inside, silent
}

// retryLater is a refusal with a status of its own, or with the time after which to
// come again.
type retryLater struct {
	why    *compute.Error
	status int           // 0: that of the error's kind
	after  time.Duration // 0: a second
}

func (l *retryLater) Error() string { return l.why.Error() }
func (l *retryLater) Unwrap() error { return l.why }

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// gate is before everything that waits for Kafka. It bounds how many wait, and
// keeps callers from waiting for a Kafka that does not answer:
//
//	answers ──one fails──▶ silent: all are refused at once,
//	   ▲                     │     one a second is let in as a trial
//	   └─────one succeeds────┘
type gate struct {
	what string // waits: "publishing"
	most int

	mu     sync.Mutex
	inside int
	silent time.Time // since when nothing succeeded, though it was tried; zero: Kafka answers
	trying bool      // a trial is under way
	failed int       // trials in a row that were not answered
	next   time.Time // silent: not before then is there another trial
}

// outcome is what Kafka made of something.
type outcome uint8

const (
	abandoned outcome = iota // the caller went away, or Kafka was not asked: nothing is known
	answered
	unanswered
)

// trialEvery is how often a silent Kafka is tried.
const trialEvery = time.Second

// refusedFor is what a refused caller is told to wait. It is more than the
// time between trials, so that not everybody is back before the answer.
const refusedFor = 2 * time.Second

func newGate(what string, most int) *gate { return &gate{what: what, most: most} }

// enter lets the caller in, which must call leave, or says why not. A trial finds out
// whether Kafka answers again, and should not take long.
func (g *gate) enter(now time.Time) (trial bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside >= g.most {
		return false, tooMany("limits."+g.what, fmt.Sprint(g.most), "so many wait for Kafka at this node already")
	}
	if !g.silent.IsZero() {
		if g.trying || now.Before(g.next) {
			return false, unansweredFor(now.Sub(g.silent))
		}
		g.trying, trial = true, true
	}
	g.inside++
	return trial, nil
}

// tooMany refuses what this node has no room for now.
func tooMany(field, value, message string) error {
	return &later{status: http.StatusTooManyRequests, after: trialEvery, why: &compute.Error{
		Kind: compute.KindUnavailable, Field: field, Value: value, Message: message,
		Remedy: "try again in a moment; nothing was done",
	}}
}

// unansweredFor refuses what Kafka was not asked for.
func unansweredFor(d time.Duration) error {
	return &later{after: refusedFor, why: &compute.Error{
		Kind:    compute.KindUnavailable,
		Message: "Kafka has not answered for " + max(d, time.Second).Truncate(time.Second).String(),
		Remedy:  "try again in a moment; nothing was done",
	}}
}

// leave says what came of it.
func (g *gate) leave(now time.Time, trial bool, o outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if trial {
		g.trying = false
	}
	switch o {
	case answered:
		g.silent, g.failed = time.Time{}, 0
	case unanswered:
		if trial {
			g.failed++
		}
		if first := g.silent.IsZero(); first || trial { // others say nothing new, and put no trial off
			if first {
				g.silent = now
			}
			g.next = now.Add(trialEvery)
		}
	}
}

// open is called when something else has shown that Kafka answers.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent, g.failed = time.Time{}, 0
}

// patience is how long a trial may take. A broker that has just come back is
// slow at first: were it always asked too briefly, it would never be believed.
func (g *gate) patience() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return trialTimeout << min(g.failed, 3)
}

// state is how many are inside, and for how long Kafka has not answered.
func (g *gate) state(now time.Time) (inside int, silent time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silent.IsZero() {
		silent = max(now.Sub(g.silent), time.Nanosecond)
	}
	return g.inside, silent
}

// later is a refusal with a status of its own, or with the time after which to
// come again.
type later struct {
	why    *compute.Error
	status int           // 0: that of the error's kind
	after  time.Duration // 0: a second
}

func (l *later) Error() string { return l.why.Error() }
func (l *later) Unwrap() error { return l.why }

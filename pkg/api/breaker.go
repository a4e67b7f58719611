// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// breaker stands before everything that waits for Kafka. It bounds how many requests wait, and keeps callers from
// waiting for what does not answer: Kafka as a whole, or one place of it.
type breaker struct {
	name  string // waits: "publishing"
	limit int

	mu       sync.Mutex
	inside   int
	node     circuit            // of all places that have none of their own
	places   map[place]*circuit // of those that did not answer
	answered time.Time          // when any place last did
}

// place is a part of Kafka that may be silent while others answer.
type place struct {
	topic     string // empty: the topics that readers catch up with
	partition int32  // everyPartition: all of them, or that of a topic with one
	apart     bool   // that it is silent says nothing of what readers catch up with
}

// everyPartition is in the place of what waits for all partitions.
const everyPartition int32 = -1

func (p place) String() string {
	topic := cmp.Or(p.topic, "requests and instances")
	if p.partition == everyPartition {
		return topic
	}
	return fmt.Sprintf("partition %d of %s", p.partition, topic)
}

// pass lets its holder in, which must leave with it.
type pass struct {
	at    place
	began time.Time
	probe bool     // it finds out whether Kafka, or its own place, answers again, and should not take long
	own   *circuit // of its place, when it was let in; nil: it had none
	// elsewhere: what is asked is another place than this one, so it says nothing of this one that it is not answered
	elsewhere bool
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

func newBreaker(what string, most int) *breaker {
	return &breaker{name: what, limit: most, places: map[place]*circuit{}}
}

// enter lets the caller in, or says why not.
func (b *breaker) enter(now time.Time, at place) (pass, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside >= b.limit {
		return pass{}, tooMany("limits."+b.name, fmt.Sprint(b.limit), "so many wait for Kafka at this node already")
	}
	own, known := b.own(now, at)
	c := cmp.Or(own, &b.node)
	probe, ok := c.enter(now)
	if !ok {
		return pass{}, unansweredFor(now.Sub(c.silent), at, known && b.node.silent.IsZero())
	}
	b.inside++
	return pass{at: at, began: now, probe: probe, own: own}, nil
}

// leave says what came of it. A place that did not answer is silent by itself if that was known, or if another has
// answered in the second half of the wait; otherwise the node has no reason to believe that others would.
func (b *breaker) leave(now time.Time, p pass, o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
	node := o
	own, known := b.own(now, p.at)
	half := now.Sub(p.began) / 2
	if o == unanswered && (p.at.apart || known || b.answered.After(p.began.Add(half))) {
		node = abandoned
	}
	b.node.leave(now, p.probe && p.own == nil, node)
	if o == answered {
		b.answered = now
		delete(b.places, p.at)
		return
	}
	if !known && o == unanswered && !p.elsewhere {
		own = new(circuit)
		b.places[p.at] = own
	}
	if own != nil {
		own.leave(now, p.probe && p.own == own, o) // one that is silent anew has probes of its own
	}
}

// own is the circuit of a place that did not answer. One that nobody has asked for since is forgotten: the place may
// have been silent with all others, and answer again as they do.
func (b *breaker) own(now time.Time, at place) (*circuit, bool) {
	c := b.places[at]
	if c != nil && c.forgotten(now) {
		delete(b.places, at)
		c = nil
	}
	return c, c != nil
}

// goElsewhere is called by a probe of the node that has found out that another place answers than its own. Its own may
// take long to say whether it does, and others need not wait for that.
func (b *breaker) goElsewhere(now time.Time, p pass) pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.probe && p.own == nil {
		b.node.probing, b.node.nextProbe, p.probe = false, now, false
	}
	return p
}

// nodeAnswers is called when it is known that others answer than a place that does not.
func (b *breaker) nodeAnswers(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = now
	b.node.leave(now, false, answered)
}

// answers is called when something else has shown that a place answers.
func (b *breaker) answers(now time.Time, at place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = now
	b.node.leave(now, false, answered)
	delete(b.places, at)
}

// answeredSince says whether any place has answered since then.
func (b *breaker) answeredSince(t time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answered.After(t)
}

// knowsSilent says whether a place did not answer when it was last asked.
func (b *breaker) knowsSilent(at place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, own := b.own(time.Now(), at)
	return own
}

// tooMany refuses what this node has no room for now.
func tooMany(field, value, message string) error {
	return &retryLater{status: http.StatusTooManyRequests, after: probeEvery, why: &compute.Error{
		Kind: compute.KindUnavailable, Field: field, Value: value, Message: message,
		Remedy: "try again in a moment; nothing was done",
	}}
}

// unansweredFor refuses what Kafka was not asked for. alone: others than the place answer.
func unansweredFor(d time.Duration, at place, alone bool) error {
	silent := "Kafka"
	if alone {
		silent = at.String()
	}
	return &retryLater{after: refusedFor, why: &compute.Error{
		Kind:    compute.KindUnavailable,
		Message: silent + " has not answered for " + max(d, time.Second).Truncate(time.Second).String(),
		Remedy:  "try again in a moment; nothing was done",
	}}
}

// probeTimeout is how long a probe may take. A broker that has just come back is
// slow at first: were it always asked too briefly, it would never be believed.
func (b *breaker) probeTimeout(p pass) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.node
	if p.own != nil {
		c = p.own
	}
	return firstProbeTimeout << min(c.failedProbes, 3)
}

// state is how many are inside, for how long Kafka has not answered, and how many places do not though others do.
func (b *breaker) state(now time.Time) (inside int, silent time.Duration, alone int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.node.silent.IsZero() {
		return b.inside, max(now.Sub(b.node.silent), time.Nanosecond), 0
	}
	maps.DeleteFunc(b.places, func(_ place, c *circuit) bool { return c.forgotten(now) })
	return b.inside, 0, len(b.places)
}

// circuit is a circuit breaker: it keeps callers from what does not answer:
//
//	answers ──one fails──▶ silent: all are refused at once,
//	   ▲                     │     one a second is let in as a probe
//	   └─────one succeeds────┘
type circuit struct {
	silent       time.Time // since when nothing succeeded, though it was tried; zero: it answers
	probing      bool      // a probe is under way
	failedProbes int       // probes in a row that were not answered
	nextProbe    time.Time // silent: the next probe is not let in before then
}

// forgetAfter is how long after the last answer in vain a circuit is forgotten that nobody has asked for since.
const forgetAfter = time.Minute

func (c *circuit) forgotten(now time.Time) bool {
	return !c.probing && now.Sub(c.nextProbe) > forgetAfter
}

func (c *circuit) enter(now time.Time) (probe, ok bool) {
	if c.silent.IsZero() {
		return false, true
	}
	if c.probing || now.Before(c.nextProbe) {
		return false, false
	}
	c.probing = true
	return true, true
}

func (c *circuit) leave(now time.Time, probe bool, o outcome) {
	if probe {
		c.probing = false
	}
	switch o {
	case answered:
		c.silent, c.failedProbes = time.Time{}, 0
	case unanswered:
		if probe {
			c.failedProbes++
		}
		if first := c.silent.IsZero(); first || probe { // others say nothing new, and put no probe off
			if first {
				c.silent = now
			}
			c.nextProbe = now.Add(probeEvery)
		}
	}
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

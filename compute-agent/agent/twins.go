// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// twins are what this agent was told of other agents that speak for its host: a disk was copied with the name
// on it, or one name was given twice. Each takes what is said to the other for its own, so none may take
// anything. The agent that began last ends; the others take nothing until it has been silent for a while.
type twins struct {
	me    compute.Voice // this process, as its beacons and reports say it
	why   string        // which other agents there are, or may be; empty: none, as far as this one knows
	alone time.Time     // when that is over unless it is said again
	fresh bool          // the journal is new and the name is not: that is what is waited for
}

// others are the voices beside this agent's own, and whether it began after all of them. None: it is not one of
// these voices, or the only one.
func (t *twins) others(voices []compute.Voice) (others []string, last bool) {
	if !slices.ContainsFunc(voices, t.me.Same) {
		return nil, false
	}
	last = true
	for _, v := range voices {
		if !v.Same(t.me) {
			others = append(others, v.String())
			last = last && !begunAfter(v, t.me)
		}
	}
	return others, last
}

// met has nothing taken for a minute because of other agents; the answer is whether that is news.
func (t *twins) met(others []string, now time.Time) (news bool) {
	why := "another agent speaks for this host: " + strings.Join(others, "; ")
	news = t.why != why
	t.why, t.alone, t.fresh = why, now.Add(compute.SilentAfter), false
	return news
}

// succeed has nothing taken for a minute because this journal is new under the name of a host that had machines:
// if the agent with the journal before this one lives (a copied disk), the stream says so by then.
func (t *twins) succeed(now time.Time) {
	t.why = "its journal is new, and another agent may speak for this host: nothing is taken for a minute"
	t.alone, t.fresh = now.Add(compute.SilentAfter), true
}

// over says, once, that nothing was said of another agent for long enough.
func (t *twins) over(now time.Time) bool {
	if t.alone.IsZero() || now.Before(t.alone) {
		return false
	}
	t.why, t.alone, t.fresh = "", time.Time{}, false
	return true
}

// begunAfter says whether v began after w; of two that began together it is decided
// by their journals.
func begunAfter(v, w compute.Voice) bool {
	return v.Started.After(w.Started) || v.Started.Equal(w.Started) && v.Journal > w.Journal
}

// meetTwins acts on which agents speak for this host.
func (l *loop) meetTwins(voices []compute.Voice) {
	if !l.stream.live {
		return
	}
	others, last := l.twins.others(voices)
	switch {
	case len(others) == 0:
	case last:
		l.fail(twin(l.o.Host, others))
	case l.twins.met(others, time.Now()):
		l.log.Error("another agent speaks for this host: nothing is taken until it has been silent for a minute",
			zap.Strings("others", others))
		l.fetches.Changed()
	}
}

func twin(host compute.HostID, others []string) error {
	return &compute.Error{
		Op: "agent", Kind: compute.KindInvalid, Field: "host", Value: string(host),
		Message: fmt.Sprintf(
			"is the name of another agent, which began earlier and works: %s",
			strings.Join(others, "; "),
		),
		Remedy: "give this host a name of its own; on a copy of the other's disk, remove the folders of state and of " +
			"machines first. If the other one is to go, stop it, and start this one a minute later",
	}
}

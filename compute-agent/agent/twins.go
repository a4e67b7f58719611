// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// twins are what this agent knows of others that speak for its host: a disk was copied with the name
// on it, or one name was given twice. Each takes what is said to the other for its own, so an agent carries
// nothing out before it knows that it is alone, and takes nothing while it does not. It asks with its beacons
// (Beacon.Asks), and the queue manager answers through the host's stream:
//
//	begins ─▶ asks ── alone, or a minute without an answer ──▶ alone
//	            ▲                                               │
//	            └──── another has begun, or speaks as well ◀────┘
//
// Of two the one that began last ends, by the order in which the queue manager names them. A new journal at the beginning of a stream that nobody was told
// anything in waits for nobody, unless its machines were another journal's: it is the first. It asks all the same, so
// that the stream says that it is there.
type twins struct {
	me     compute.Voice // this process, as its beacons and reports say it
	began  bool          // it was alone once: it carries out what it decides
	asks   bool          // it wants to be told whether it is alone
	beside compute.Voice // another agent that has begun, as the stream says; zero: none
	why    string        // why nothing is taken; empty: it is alone
	until  time.Time     // when it counts as alone without an answer; zero: not yet known, or it is
}

// ask has an agent that has just begun ask.
func (t *twins) ask() {
	t.asks, t.why = true, "its agent has begun and does not know yet whether another one speaks for this host"
}

// know takes what the stream says of the agents that speak for this host, also before it was read to its end: words
// that name this process are about nothing older. said: it should say at once what it knows now.
func (t *twins) know(c compute.Command, now time.Time) (said bool) {
	switch v := c.Voices[0]; {
	case c.Op == compute.CommandAlone && v.Same(t.me):
		t.alone()
	case c.Op == compute.CommandBegun && !v.Same(t.me) && !v.Same(t.beside):
		t.beside = v
		if t.asks = true; t.why == "" {
			t.until = now.Add(compute.SilentAfter)
			t.why = "another agent has begun under the name of this host: " + v.String()
		}
		return true
	}
	return false
}

// alone has work taken.
func (t *twins) alone() { *t = twins{me: t.me, began: true} }

// begin has an agent ask that has read its stream to the end, unless nobody was there before as far as the stream and
// the machines' mark say. It counts as alone a minute from now if nobody answers: no queue manager may be there.
func (l *loop) begin(now time.Time) {
	switch {
	case l.twins.began || !l.twins.until.IsZero():
	case !l.a.begin.Positioned && !l.stream.used() && !l.o.Heir:
		l.twins.began, l.twins.asks, l.beacon.now = true, true, true
	default:
		l.beacon.now = l.beacon.now || !l.twins.asks // its first beacon may have said nothing of it
		l.twins.ask()
		l.twins.until = now.Add(compute.SilentAfter)
	}
}

// others are the voices beside this agent's own, and whether it began after all of them, by their order: clocks of hosts
// may be wrong. None: it is not one of these voices, or the only one.
func (t *twins) others(voices []compute.Voice) (others []string, last bool) {
	if !slices.ContainsFunc(voices, t.me.Same) {
		return nil, false
	}
	for _, v := range voices {
		if last = v.Same(t.me); !last {
			others = append(others, v.String())
		}
	}
	return others, last
}

// met has nothing taken for a minute because of other agents; the answer is whether that is news.
func (t *twins) met(others []string, now time.Time) (news bool) {
	why := "another agent speaks for this host: " + strings.Join(others, "; ")
	news = t.why != why
	t.why, t.until, t.asks = why, now.Add(compute.SilentAfter), true
	return news
}

// over says, once, that nothing was said of another agent for long enough.
func (t *twins) over(now time.Time) bool {
	if t.until.IsZero() || now.Before(t.until) {
		return false
	}
	t.alone()
	return true
}

// hearTwins takes what a command of the stream says of the agents that speak for this host.
func (l *loop) hearTwins(h heard) {
	switch {
	case h.err != nil: // apply says so
	case h.Op == compute.CommandTwins:
		l.meetTwins(h.Voices)
	case h.Op == compute.CommandAlone, h.Op == compute.CommandBegun:
		was := l.twins.why
		l.beacon.now = l.twins.know(h.Command, time.Now()) || l.beacon.now
		if l.twins.why != was {
			l.log.Info("who speaks for this host", zap.Bool("alone", l.twins.why == ""),
				zap.Stringer("said of", h.Voices[0]))
			l.fetches.Changed()
		}
	}
}

// meetTwins acts on which agents speak for this host.
func (l *loop) meetTwins(voices []compute.Voice) {
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

// leave is the last beacon: nobody has to wait for this agent. One that did not know whether it was alone says that,
// too.
func (l *loop) leave(ctx context.Context) {
	if l.beacon.sentAt.IsZero() {
		return // nobody has heard of it
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	b := l.beaconNow(time.Now())
	if b.Leaves = true; b.State == compute.HostEnabled {
		b.State, b.Reason = compute.HostQuarantined, "its agent has ended"
	}
	if err := l.o.Reporter.Send(ctx, wire.EncodeBeacon(b).To(l.o.Topics.Hosts(), wire.AnyPartition)); err != nil {
		l.log.Debug("the last beacon was not acknowledged", zap.Error(err))
	}
}

// leaveTime bounds how long an agent tries to say that it ends.
const leaveTime = 2 * time.Second

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

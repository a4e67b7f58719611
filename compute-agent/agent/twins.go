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

// voice is this process, as its beacons and reports say it.
func (l *loop) voice() compute.Voice {
	return compute.Voice{Journal: l.a.begin.ID, Started: l.began.UTC()}
}

// meetTwins is told that several agents speak for this host: a disk was copied with
// the name on it, or one name was given twice. Each takes what is said to the other
// for its own, so none may take anything. The one that began last ends.
func (l *loop) meetTwins(voices []compute.Voice) {
	if !l.stream.live || !slices.ContainsFunc(voices, l.voice().Same) {
		return
	}
	var others []string
	last := true
	for _, v := range voices {
		if !v.Same(l.voice()) {
			others = append(others, v.String())
			last = last && !begunAfter(v, l.voice())
		}
	}
	if len(others) == 0 {
		return
	}
	if last {
		l.fail(twin(l.o.Host, others))
		return
	}
	why := "another agent speaks for this host: " + strings.Join(others, "; ")
	if l.view.twins != why {
		l.log.Error("another agent speaks for this host: nothing is taken until it has been silent for a minute",
			zap.Strings("others", others))
		l.view.twins = why
		l.fetches.Changed()
	}
	l.view.alone, l.view.fresh = time.Now().Add(compute.SilentAfter), false
}

// succeed has a new journal under the name of a host that had machines, which its stream tells,
// take nothing for a minute: if the agent with the journal before this one lives (a copied
// disk), the stream says so by then.
func (l *loop) succeed(now time.Time) {
	if !l.stream.used {
		return
	}
	l.log.Info("this journal is new and the host's name is not: nothing is taken for a minute, in case another agent speaks for it")
	l.view.twins = "its journal is new, and another agent may speak for this host: nothing is taken for a minute"
	l.view.alone, l.view.fresh = now.Add(compute.SilentAfter), true
}

// begunAfter says whether v began after w; of two that began together it is decided
// by their journals.
func begunAfter(v, w compute.Voice) bool {
	return v.Started.After(w.Started) || v.Started.Equal(w.Started) && v.Journal > w.Journal
}

// aloneAgain takes work again once nothing was said of another agent for a while.
func (l *loop) aloneAgain(now time.Time) {
	if l.view.alone.IsZero() || now.Before(l.view.alone) {
		return
	}
	l.log.Info("no other agent speaks for this host any more")
	l.view.twins, l.view.alone, l.view.fresh = "", time.Time{}, false
	l.fetches.Changed()
}

func twin(host compute.HostID, others []string) error {
	return &compute.Error{
		Op: "agent", Kind: compute.KindInvalid, Field: "host", Value: string(host),
		Message: fmt.Sprintf("is the name of another agent, which began earlier and works: %s", strings.Join(others, "; ")),
		Remedy: "give this host a name of its own; on a copy of the other's disk, remove the folders of state and of " +
			"machines first. If the other one is to go, stop it, and start this one a minute later",
	}
}

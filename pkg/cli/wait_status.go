// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// waitStatus is what a wait sees at some time: the whole line, and what of it is
// news. Ages and times to go change with every look, and are no news.
type waitStatus struct{ line, news string }

// look says in one line what becomes of some instances of so many that were
// asked for, and why those that wait do.
func look(found []client.Instance, all int, now time.Time) waitStatus {
	if len(found) == 1 && all == 1 {
		return waitStatus{one(found[0], now, true), one(found[0], now, false)}
	}
	return waitStatus{many(found, all, now, true), many(found, all, now, false)}
}

// one is an instance: "web: queued, waiting: NoEligibleHost 3 full, 1 draining".
func one(i client.Instance, now time.Time, ages bool) string {
	line := Printable(i.Name) + ": " + doing(i)
	switch {
	case i.State == "accepted":
		return line + ", waiting: no conductor has read it yet"
	case takenSoon(i, now):
		return line
	case i.State == "queued":
		return line + ", waiting: " + newCause(i, now).text(now, ages)
	case i.Host != "" && !settled(i):
		line += " on " + string(i.Host)
	}
	if i.Command != nil && i.State == "active" {
		line += ", " + i.Command.Op + " under way"
	}
	if text := why(i); text != "" {
		line += " (" + Printable(text) + ")"
	}
	return line
}

// soon is how long something may be queued while hosts fit it before that it waits is news: a host has to fetch it.
const soon = 2 * time.Second

// takenSoon says whether an instance is queued and nothing keeps it waiting.
func takenSoon(i client.Instance, now time.Time) bool {
	w := i.Waiting
	return i.State == "queued" && i.Reason == nil && now.Sub(i.QueuedAt) < soon &&
		w != nil && w.Code == compute.WaitingForCapacity && w.Hosts != nil && w.Hosts.Eligible > 0
}

// many is how many are in which state, the end of the first that ended badly,
// and each different cause to wait.
func many(found []client.Instance, all int, now time.Time, ages bool) string {
	counts, bad, causes := map[client.State]int{}, "", []*cause(nil)
	for _, i := range found {
		counts[i.State]++
		switch {
		case takenSoon(i, now):
		case i.State == "queued":
			causes = join(causes, newCause(i, now))
		case bad == "" && i.State != "active":
			bad = why(i)
		}
	}
	counts["accepted"] += all - len(found)
	var parts []string
	for _, state := range []client.State{
		"accepted", "queued", "starting", "active", "unknown", "deleting", "deleted", "error",
	} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	line := strings.Join(parts, ", ")
	if bad != "" {
		line += " (" + Printable(bad) + ")"
	}
	return line + waitsFor(causes, now, ages)
}

// mostCauses is how many different causes one line tells.
const mostCauses = 3

func waitsFor(causes []*cause, now time.Time, ages bool) string {
	var parts []string
	for n, c := range causes {
		if n == mostCauses {
			parts = append(parts, fmt.Sprintf("and %d other reasons", len(causes)-n))
			break
		}
		text := c.text(now, ages)
		if len(causes) > 1 {
			text = fmt.Sprintf("%d × %s", c.n, text)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return "; waiting: " + strings.Join(parts, "; ")
}

// cause is why some instances wait: the code, what became of the hosts, and the
// places in line from the first to the last of them.
type cause struct {
	what        string // the code, and what does not differ between them
	n           int
	first, last uint64 // places, from 1; 0: in no line
	depth       uint64
	oldest      time.Time
	retry       time.Time // of the first: when its next attempt is due
}

func newCause(i client.Instance, now time.Time) *cause {
	c := &cause{n: 1}
	if i.Waiting == nil {
		c.what = "the API does not say why"
		return c
	}
	w := i.Waiting
	parts := []string{}
	switch {
	case w.Hosts != nil:
		parts = append(parts, w.Hosts.Compute().String())
	case w.Code == compute.NoEligibleHost:
		parts = append(parts, "no host is known")
	}
	if w.Host != "" {
		parts = append(parts, "host "+string(w.Host))
	}
	if w.Detail != "" {
		parts = append(parts, w.Detail)
	}
	if i.NextTryAt.After(now) {
		c.retry = i.NextTryAt
		parts = append(parts, "attempt "+attempt(i)+" is due soon")
	}
	if i.Reason != nil {
		parts = append(parts, "before: "+i.Reason.Message)
	}
	if w.Place != nil {
		c.first, c.last, c.depth, c.oldest = w.Place.Position+1, w.Place.Position+1, w.Place.Depth, w.Place.Oldest
	}
	c.what = strings.TrimSpace(string(w.Code) + " " + Printable(strings.Join(parts, ", ")))
	return c
}

// join adds a cause to those that are the same but for their places.
func join(causes []*cause, c *cause) []*cause {
	at := slices.IndexFunc(
		causes,
		func(other *cause) bool { return other.what == c.what && (other.first == 0) == (c.first == 0) },
	)
	if at < 0 {
		return append(causes, c)
	}
	same := causes[at]
	same.n += c.n
	same.first, same.last, same.depth = min(same.first, c.first), max(same.last, c.last), max(same.depth, c.depth)
	if c.oldest.Before(same.oldest) {
		same.oldest = c.oldest
	}
	return causes
}

func (c *cause) text(now time.Time, ages bool) string {
	parts := []string{c.what}
	switch {
	case c.first == 0:
	case c.first == c.last:
		parts = append(parts, fmt.Sprintf("position %d of %d", c.first, c.depth))
	default:
		parts = append(parts, fmt.Sprintf("positions %d to %d of %d", c.first, c.last, c.depth))
	}
	if ages && c.first > 0 && !c.oldest.IsZero() {
		parts = append(parts, "oldest "+age(c.oldest, now))
	}
	if ages && c.retry.After(now) {
		parts = append(parts, "next attempt in "+Short(c.retry.Sub(now)))
	}
	text := strings.Join(parts, ", ")
	if c.what == string(compute.WaitingForCapacity) { // nothing comes between the code and its numbers
		text = strings.Replace(text, ", ", " ", 1)
	}
	return text
}

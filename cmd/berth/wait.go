package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// How often the API is asked while waiting: soon at first, then less often.
const (
	pollFirst = 50 * time.Millisecond
	pollMost  = time.Second
)

// until asks again and again until done, ctx ends or the time is up. An API
// node that cannot be reached for a moment ends nothing. On a time-out the error
// is a KindTimeout that says what was seen last.
func until(ctx context.Context, timeout time.Duration, ask func(context.Context) (done bool, seen string, err error)) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	seen, pause := "", pollFirst
	for {
		done, now, err := ask(ctx)
		if now != "" {
			seen = now
		}
		switch {
		case err == nil && done:
			return nil
		case err != nil && ctx.Err() == nil && !passing(err):
			return err
		}
		if !sleep(ctx, pause) {
			return waitEnded(ctx, timeout, seen, err)
		}
		pause = min(pause*3/2, pollMost)
	}
}

// passing says that asking again may work.
func passing(err error) bool {
	kind := compute.KindOf(err)
	return err != nil && (kind == compute.KindUnavailable || kind == compute.KindTimeout)
}

func waitEnded(ctx context.Context, timeout time.Duration, seen string, last error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &compute.Error{Kind: compute.KindInternal, Message: "the wait was called off", Remedy: "what was asked for goes on"}
	}
	e := &compute.Error{Kind: compute.KindTimeout, Message: "waited " + timeout.String(), Remedy: "what was asked for goes on; berth list shows it"}
	if seen != "" {
		e.Message += ", and it is still so: " + seen
	}
	if compute.KindOf(last) == compute.KindUnavailable { // a time-out may be this wait's own
		e.Cause = last
	}
	return e
}

// waitInstances waits until each instance is done and returns them as they then
// are, in the order of ids.
func waitInstances(ctx context.Context, c *client.Client, live *liveLine, timeout time.Duration, ids []compute.InstanceID, done func(client.Instance) bool) ([]client.Instance, error) {
	var found []client.Instance
	err := until(ctx, timeout, func(ctx context.Context) (bool, string, error) {
		some, err := c.Instances(ctx, client.Filter{IDs: ids, All: true})
		if err != nil {
			return false, "", err
		}
		found = some
		finished := 0
		for _, i := range found {
			if done(i) {
				finished++
			}
		}
		seen := summary(found, len(ids))
		live.show(seen)
		return finished == len(ids), seen, nil
	})
	live.end()
	slices.SortFunc(found, func(a, b client.Instance) int {
		return slices.Index(ids, a.ID) - slices.Index(ids, b.ID)
	})
	return found, err
}

// summary is one line about one or many instances: how many in which state, and
// the reason of the first that has one.
func summary(found []client.Instance, all int) string {
	if len(found) == 1 && all == 1 {
		return strings.TrimSuffix(found[0].Name+": "+string(found[0].State)+" ("+why(found[0])+")", " ()")
	}
	counts, reason := map[client.State]int{}, ""
	for _, i := range found {
		counts[i.State]++
		if reason == "" {
			reason = why(i)
		}
	}
	counts["accepted"] += all - len(found)
	var parts []string
	for _, state := range []client.State{"accepted", "queued", "starting", "active", "unknown", "deleting", "deleted", "error"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.TrimSuffix(strings.Join(parts, ", ")+" ("+reason+")", " ()")
}

// liveLine shows the newest state of something: on a terminal in one line, else
// in a new line whenever it changes.
type liveLine struct {
	w        io.Writer
	terminal bool
	last     string
}

func newLiveLine(w io.Writer) *liveLine {
	return &liveLine{w: w, terminal: isTerminal(w)}
}

func (l *liveLine) show(text string) {
	text = printable(text)
	if text == l.last {
		return
	}
	l.last = text
	if l.terminal {
		fmt.Fprint(l.w, "\r\x1b[K"+text)
		return
	}
	fmt.Fprintln(l.w, text)
}

// end leaves the line for what is printed next.
func (l *liveLine) end() {
	if l.terminal && l.last != "" {
		fmt.Fprintln(l.w)
	}
	l.last = ""
}

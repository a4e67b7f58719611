// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// How often the API is asked while waiting: soon at first, then less often.
const (
	pollFirst = 50 * time.Millisecond
	pollMost  = time.Second
)

// until asks again and again until done, ctx ends or the time is up. An API
// node that cannot be reached for a moment ends nothing. On a time-out the error
// is a KindTimeout that says what was seen last.
func until(
	ctx context.Context,
	timeout time.Duration,
	ask func(context.Context) (done bool, seen string, err error),
) error {
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
		if !service.Sleep(ctx, pause) {
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
		return &compute.Error{
			Kind:    compute.KindInternal,
			Message: "the wait was called off",
			Remedy:  "what was asked for goes on",
		}
	}
	e := &compute.Error{
		Kind:    compute.KindTimeout,
		Message: "waited " + timeout.String(),
		Remedy:  "what was asked for goes on; berth list shows it",
	}
	if seen != "" {
		e.Message += ", and it is still so: " + seen
	}
	if compute.KindOf(last) == compute.KindUnavailable { // a time-out may be this wait's own
		e.Cause = last
	}
	return e
}

// waitInstances waits until each instance is done and returns them as they then
// are, in the order of ids. Those that are done are not asked for again.
func waitInstances(
	ctx context.Context,
	c *client.Client,
	live *liveLine,
	timeout time.Duration,
	ids []compute.InstanceID,
	done func(client.Instance) bool,
) ([]client.Instance, error) {
	found := make(map[compute.InstanceID]client.Instance, len(ids))
	list := func() (all []client.Instance) {
		for _, id := range ids {
			if i, ok := found[id]; ok {
				all = append(all, i)
			}
		}
		return all
	}
	open := slices.Clone(ids)
	err := until(ctx, timeout, func(ctx context.Context) (bool, string, error) {
		some, err := c.Instances(ctx, client.Filter{IDs: open, All: true})
		if err != nil {
			return false, "", err
		}
		for _, i := range some {
			found[i.ID] = i
		}
		for _, id := range open {
			if slices.ContainsFunc(some, func(i client.Instance) bool { return i.ID == id }) {
				continue
			}
			// The node may not have read of it yet, or a conductor has refused the request: this tells which.
			if found[id], err = c.Instance(ctx, id); err != nil {
				delete(found, id)
				return false, "", err
			}
		}
		open = slices.DeleteFunc(open, func(id compute.InstanceID) bool { i, ok := found[id]; return ok && done(i) })
		seen := look(list(), len(ids), time.Now())
		live.show(seen)
		return len(open) == 0, seen.line, nil
	})
	live.end()
	return list(), err
}

// liveLine shows the newest state of something: on a terminal in one line that
// changes, else in a new line whenever there is news.
type liveLine struct {
	w        io.Writer
	terminal bool
	last     string
}

func newLiveLine(w io.Writer) *liveLine {
	return &liveLine{w: w, terminal: isTerminal(w)}
}

func (l *liveLine) show(s waitStatus) {
	shown := s.news
	if l.terminal {
		shown = s.line
	}
	switch {
	case shown == l.last:
		return
	case l.terminal:
		fmt.Fprint(
			l.w,
			"\r\x1b[K\x1b[?7l"+s.line+"\x1b[?7h",
		) // what does not fit is cut off: a second line could not be taken back
	default:
		fmt.Fprintln(l.w, s.line)
	}
	l.last = shown
}

// end leaves the line for what is printed next.
func (l *liveLine) end() {
	if l.terminal && l.last != "" {
		fmt.Fprintln(l.w)
	}
	l.last = ""
}

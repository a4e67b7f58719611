// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// How often the API is asked while nothing tells of changes: soon at first, then less often.
const (
	pollFirst = 50 * time.Millisecond
	pollMost  = time.Second
)

// firstCalm is how long after the last change the API is asked while changes are told, for what no change tells: why
// instances wait, whether a host is silent, that a request was rejected. Then it is twice as long each time.
const (
	firstCalm   = 2 * time.Second
	longestCalm = 5 * time.Minute
)

// lastLook is how long the last answer of a wait may take whose time is up.
const lastLook = time.Second

// timeoutFlag adds how long a command waits. It is refused where the command does not wait, and below 0, which would be
// no limit.
func timeoutFlag(cmd *cobra.Command, timeout *time.Duration, otherwise time.Duration, usage string) {
	cmd.Flags().DurationVar(timeout, "timeout", otherwise, usage)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		wait := cmd.Flag("wait") // none: it waits unless it is told not to
		switch {
		case *timeout < 0:
			return compute.Invalid("timeout", timeout.String(), "give a duration above 0, as in 10m, or 0 to wait for ever")
		case !cmd.Flag("timeout").Changed:
			return nil
		case wait != nil && wait.Value.String() != "true":
			return compute.Invalid("timeout", timeout.String(), "give --wait too, or leave it out")
		}
		for _, name := range []string{"no-wait", "dry-run"} {
			if f := cmd.Flag(name); f != nil && f.Value.String() == "true" {
				return compute.Invalid("timeout", timeout.String(), "leave it out with --"+name+", which waits for nothing")
			}
		}
		return nil
	}
}

// until asks again and again until done, ctx ends or the time is up. An API
// node that cannot be reached for a moment ends nothing. On a time-out the error
// is a KindTimeout that says what was seen last.
func until(ctx context.Context, timeout time.Duration, ask ask) error {
	return untilTold(ctx, timeout, nil, ask, nil)
}

// ask asks the API once. seen is what a time-out says was seen last.
type ask func(context.Context) (done bool, seen string, err error)

// urgency is how soon the API is to be asked, for what was told.
type urgency int

const (
	calmly  urgency = iota // when nothing has been told for some time
	soonest                // as soon as if nothing told of changes
	atOnce
)

// untilTold is until with a watch. While that tells of changes the API is asked when they call for it, and else ever
// less often; while it does not, as until asks. hears takes what was told.
func untilTold(ctx context.Context, timeout time.Duration, w *watch, ask ask, hears func([]client.Told) urgency) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	seen, p, met := "", pace{soon: pollFirst, calm: firstCalm}, false
	// once a node was there, what is none's answer is a proxy's that has none to ask
	ends := func(err error) bool { return err != nil && !passing(err) && !(met && client.IsForeign(err)) }
	for {
		done, now, err := ask(ctx)
		met = met || err == nil
		if now != "" {
			seen = now
		}
		switch {
		case err == nil && done:
			return nil
		case ctx.Err() == nil && ends(err):
			return err
		}
		if p.rest(ctx, w, hears, err != nil) {
			continue
		}
		if w != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // the last answer may be of long ago
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
			defer cancel()
			done, now, failed := ask(last)
			switch {
			case failed == nil && done:
				return nil
			case last.Err() == nil && ends(failed):
				return failed
			case now != "":
				seen = now
			}
		}
		return waitEnded(ctx, timeout, seen, err)
	}
}

// pace is how long a wait rests between two questions.
type pace struct {
	soon time.Duration // while nothing tells of changes, and at the least
	calm time.Duration // while changes are told
}

// rest rests until it is time to ask again; false: ctx has ended. After a question that failed it does not rely on
// what is told.
func (p *pace) rest(ctx context.Context, w *watch, hears func([]client.Told) urgency, failed bool) bool {
	asked, urgent := time.Now(), calmly
	soon, calm := asked.Add(p.soon), asked.Add(p.calm)
	p.soon = min(p.soon*3/2, pollMost)
	for {
		told, live := w.take()
		if len(told) > 0 {
			urgent, p.calm = max(urgent, hears(told)), firstCalm
			calm = time.Now().Add(p.calm)
		}
		due := calm
		switch {
		case urgent == atOnce && !failed:
			return ctx.Err() == nil
		case urgent > calmly || failed || !live:
			due = soon
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
			if due == calm {
				p.calm = min(2*p.calm, longestCalm)
			}
			return ctx.Err() == nil
		case <-w.changed():
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
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
// are, in the order of ids. Those that are done are not asked for again. The watch
// is of these instances, and began before anything was asked of them.
func waitInstances(
	ctx context.Context,
	c *client.Client,
	w *watch,
	live *liveLine,
	timeout time.Duration,
	ids []compute.InstanceID,
	done func(client.Instance) bool,
) ([]client.Instance, error) {
	all := newWaited(ids, done)
	show := func() string {
		seen := look(all.list(), len(ids), time.Now())
		live.show(seen)
		return seen.line
	}
	err := untilTold(ctx, timeout, w, func(ctx context.Context) (bool, string, error) {
		if err := all.ask(ctx, c); err != nil {
			return false, "", err
		}
		over := all.settle()
		return over, show(), nil
	}, func(told []client.Told) urgency {
		urgent := all.hears(told)
		if urgent == calmly { // else an answer comes first, which says more
			show()
		}
		return urgent
	})
	live.end()
	return all.list(), err
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

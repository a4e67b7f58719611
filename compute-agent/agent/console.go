package agent

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Asks about consoles pass the loop by: they are neither journaled nor repeated,
// and nothing that matters waits for one. Where there are more than this host
// answers at once, some are not answered; who asked knows after ten seconds.
const (
	consoleHands  = 2  // answer at once
	consolesQueue = 32 // wait for that
)

// consoleAsk is an ask that waits for a hand.
type consoleAsk struct {
	compute.Command
	here bool // this host has the machine, and for this project: an id alone is no proof of that
}

// console takes an ask, or leaves it.
func (l *loop) console(c compute.Command) {
	t, ok := l.tasks[c.Instance]
	select {
	case l.consoles <- consoleAsk{c, ok && t.Project == c.Project}:
	default:
		l.log.Debug("an ask for a console is left: there are too many", zap.String("instance", string(c.Instance)))
	}
}

// askedFor says by this host's clock until when an answer about a console is waited for:
// as long as its asker said, from when the log has the question. The asker's clock
// and this host's need not agree.
func (l *loop) askedFor(c *compute.Command, rec wire.Record) {
	if c.Console == nil || !rec.Logged || c.At.IsZero() {
		return
	}
	ask := *c.Console
	left := rec.Time.Add(ask.Deadline.Sub(c.At)).Sub(l.clock.At(l.o.Now()))
	ask.Deadline = time.Now().Add(left)
	c.Console = &ask
}

// answerConsoles runs beside the loop until it ends.
func (l *loop) answerConsoles() {
	for range consoleHands {
		l.workers.Go(func() {
			for {
				select {
				case <-l.work.Done():
					return
				case c := <-l.consoles:
					l.answerConsole(c)
				}
			}
		})
	}
}

// answerConsole answers once, or not at all: an ask that is too old, as all are
// that waited for an agent to come back, is nobody's any more.
func (l *loop) answerConsole(c consoleAsk) {
	ctx, cancel := context.WithDeadline(l.work, c.Console.Deadline)
	defer cancel()
	if ctx.Err() != nil {
		l.log.Debug("an ask for a console is too old to be answered", zap.String("instance", string(c.Instance)), zap.Time("deadline", c.Console.Deadline))
		return
	}
	answer := readConsole(ctx, l.o.Driver, c)
	if ctx.Err() != nil {
		return // nobody waits any more
	}
	answer.Host, answer.At = l.o.Host, l.o.Now().UTC()
	if err := l.o.Reporter.Send(ctx, wire.EncodeConsole(answer).To(l.o.Topics.Consoles(), 0)); err != nil {
		l.log.Debug("a console was not sent", zap.String("instance", string(c.Instance)), zap.Error(err))
	}
}

// readConsole asks the hypervisor.
func readConsole(ctx context.Context, d hypervisor.Driver, c consoleAsk) compute.Console {
	out := compute.Console{Ask: c.Console.ID, Project: c.Project, Instance: c.Instance}
	refuse := func(r compute.ConsoleRefusal, message string) compute.Console {
		out.Refusal, out.Message = r, message
		return out
	}
	keeps, ok := hypervisor.As[hypervisor.Console](d)
	if !ok {
		return refuse(compute.ConsoleNotKept, "the driver "+d.Capabilities().Driver+" keeps no consoles")
	}
	if !c.here {
		return refuse(compute.ConsoleNotHere, "")
	}
	limit := int(min(c.Console.Limit, compute.MaxConsole))
	part, err := keeps.Console(ctx, c.Instance, c.Console.Offset, limit)
	var e *hypervisor.Error
	switch {
	case errors.As(err, &e) && e.Class == compute.FailureHost && e.Cause == nil: // it went meanwhile
		return refuse(compute.ConsoleNotHere, e.Message)
	case err != nil:
		return refuse(compute.ConsoleFailed, err.Error())
	}
	out.Offset, out.Data, out.End = part.Offset, part.Data[:min(len(part.Data), limit)], part.End
	return out
}

// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
)

// traced says whether a task's boot is traced: else nothing is worked out.
func (l *loop) traced(t *task.Task) bool { return l.o.Tracer != nil && t.Trace != "" }

// traceTaken tells how long work waited for a host, from when its conductor published it.
func (l *loop) traceTaken(t *task.Task, b compute.Build) {
	if l.traced(t) {
		span := l.span("queue", t)
		span.From, span.Queue = b.At, b.Queue
		l.o.Tracer.Tell(span)
	}
}

// traceAnswer tells how long a claim waited for its answer.
func (l *loop) traceAnswer(t *task.Task, denied string) {
	if l.traced(t) && t.Stage == task.Claiming && !t.Since.IsZero() {
		span := l.span("claim", t)
		span.From, span.Failed = span.To.Add(-time.Since(t.Since)), denied
		l.o.Tracer.Tell(span)
	}
}

// traceCall tells how long the hypervisor took to prepare or launch a machine.
func (l *loop) traceCall(t *task.Task, c *call, err error) {
	if !l.traced(t) || c.began.IsZero() || c.stage != task.Preparing && c.stage != task.Launching {
		return
	}
	span := l.span(operation(c.stage), t)
	span.From = span.To.Add(-time.Since(c.began))
	if err != nil {
		span.Failed = hypervisor.Brief(err.Error())
	}
	l.o.Tracer.Tell(span)
}

// span is one that ends now, by the time of the log: hosts' clocks may be wrong.
func (l *loop) span(name string, t *task.Task) tracing.Span {
	return tracing.Span{
		Name: name, Trace: t.Trace, To: l.clock.At(l.o.Now()), Instance: t.Instance, Project: t.Project,
		Queue: t.Queue, Host: l.o.Host, Attempt: t.Attempt,
	}
}

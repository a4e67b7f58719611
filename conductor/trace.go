// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// input is what a turn was told of an instance whose boot is traced.
type input struct {
	at    time.Time // when it came into the log
	began bool      // it had no trace yet: the decision about it is the first span of one
}

// traceRequest begins the trace of a boot that was published without one, and notes when the request came.
func (t *turn) traceRequest(rec wire.Record, r *compute.Request) {
	if t.cfg.Tracer == nil || len(r.Boots()) == 0 {
		return
	}
	s := t.states[rec.Partition]
	if s == nil || s.Instance(r.Instance) != nil {
		return // it is a repetition
	}
	began := !tracing.Valid(r.Trace)
	if began {
		r.Trace = t.cfg.Tracer.Begin(r.Instance, "", rec.Time)
	}
	for _, boot := range r.Boots() {
		t.trace(boot.Instance, r.Trace, input{at: rec.Time, began: began && boot.Instance == r.Instance})
	}
}

// trace notes an input of an instance, if its boot is traced.
func (t *turn) trace(id compute.InstanceID, trace compute.Trace, in input) {
	if t.cfg.Tracer == nil || trace == "" {
		return
	}
	if t.inputs == nil {
		t.inputs = map[compute.InstanceID]input{}
	}
	t.inputs[id] = in
}

// tell tells how long what was decided of a partition took, from the log into the log.
func (t *turn) tell(done *tally) {
	if len(t.inputs) == 0 {
		return
	}
	now := t.clock.At(t.cfg.Now())
	for _, m := range done.moves {
		in, noted := t.inputs[m.inst.ID]
		span := tracing.Span{
			Trace: m.inst.Trace, From: in.at, To: now, Instance: m.inst.ID, Project: m.inst.Project,
			Queue: m.inst.Queue, Host: m.inst.Host, Attempt: m.inst.Attempt,
		}
		switch decisionOf(m.was, m.is) {
		case "admitted":
			span.Name, span.Boot = "decide", in.began
		case "refused":
			span.Name, span.Boot, span.Failed = "decide", in.began, codeOf(m.inst.Reason)
		case "granted":
			span.Name = "grant"
		default:
			continue
		}
		if noted {
			t.cfg.Tracer.Tell(span)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/tracing/tracingtest"
	"github.com/berth-project/berth/pkg/wire"
)

// The steps of a boot, each with what tells of it, in the order in which they begin.
var bootSteps = [][2]string{
	{"boot", "berth-api"}, {"decide", "berth-conductor"}, {"queue", "berth-agent"}, {"prepare", "berth-agent"},
	{"claim", "berth-agent"}, {"grant", "berth-conductor"}, {"launch", "berth-agent"},
}

// One trace has every step of a boot, whoever it is that asks for it and begins the trace.
func TestTraces(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		collector := tracingtest.New(t)
		h := smallHost(1)
		var broken atomic.Bool // nothing can be prepared any more
		h.Driver.Fault = func(c fake.Call) *fake.Fault {
			if c.Method == "Prepare" && broken.Load() {
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureRequest, Message: "no such image"}}
			}
			return nil
		}
		r := newRig(t, b, h)
		r.tracers = map[string]*tracing.Tracer{}
		for name, ratio := range map[string]float64{"api": 0.5, "conductor": 0.5, "agent": 0} {
			o := tracing.Options{Endpoint: collector.URL, Ratio: ratio, Service: "berth-" + name}
			r.tracers[name] = tracing.New(o)
		}
		r.up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})

		// The ratio leaves out always the same ones.
		chosen, left := idsBy(r.tracers["api"], true), idsBy(r.tracers["api"], false)
		const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		all := []compute.InstanceID{chosen[0], chosen[1], chosen[2], left[0], left[1], left[2], left[3]}
		r.bootTraced(all[0], "")
		r.publishTraced(all[1], "")
		r.publishTraced(all[2], "no trace")
		r.bootTraced(all[3], "")
		r.bootTraced(all[4], strings.TrimSuffix(caller, "1")+"0")
		r.bootTraced(all[5], caller)
		r.publishTraced(all[6], caller)
		r.await(all, compute.StateActive)

		broken.Store(true)
		r.publishTraced(chosen[3], "")
		r.await(chosen[3:4], compute.StateError)
		// Spans are sent every few seconds; those that are left at the end have little time then.
		least := map[compute.InstanceID]int{all[0]: 7, all[1]: 6, all[2]: 6, all[5]: 7, all[6]: 6, chosen[3]: 3}
		defer func() {
			if t.Failed() {
				t.Logf("%+v", collector.Spans())
			}
		}()
		r.poll("the collector has the spans", func() bool {
			have := byInstance(collector.Spans())
			for id, n := range least {
				if len(have[id]) < n {
					return false
				}
			}
			return true
		})
		r.stopAll()
		for _, tracer := range r.tracers {
			r.must(tracer.Close())
		}

		traces := byInstance(collector.Spans())
		isTrace(t, "a boot", traces[all[0]], noDashes(all[0]), "", bootSteps)
		isTrace(t, "a published boot", traces[all[1]], noDashes(all[1]), "", bootSteps[1:])
		isTrace(t, "one with a traceparent that is none", traces[all[2]], noDashes(all[2]), "", bootSteps[1:])
		isTrace(t, "a boot of a traced caller", traces[all[5]], caller[3:35], caller[36:52], bootSteps)
		for _, id := range []compute.InstanceID{all[3], all[4]} {
			if spans := traces[id]; len(spans) != 0 {
				t.Errorf("%s was to be left out, and has %+v", id, spans)
			}
		}
		if spans := traces[all[6]]; len(spans) != 6 || spans[0].TraceID != caller[3:35] ||
			slices.ContainsFunc(spans, func(s tracingtest.Span) bool { return s.Parent != caller[36:52] }) {
			t.Errorf("a published boot of a traced caller: %+v", spans)
		}
		failed := traces[chosen[3]]
		if i := slices.IndexFunc(failed, func(s tracingtest.Span) bool { return s.Name == "prepare" }); i < 0 ||
			failed[i].Failed != "no such image" {
			t.Errorf("a boot that failed: %+v", failed)
		}
	})
}

func byInstance(spans []tracingtest.Span) map[compute.InstanceID][]tracingtest.Span {
	traces := map[compute.InstanceID][]tracingtest.Span{}
	for _, s := range spans {
		id := compute.InstanceID(s.Attributes["berth.instance"])
		traces[id] = append(traces[id], s)
	}
	return traces
}

// isTrace wants these steps, which begin in this order, the first one below parent, and all others below the first one.
func isTrace(t *testing.T, what string, spans []tracingtest.Span, trace, parent string, steps [][2]string) {
	t.Helper()
	place := func(s tracingtest.Span) int { return slices.Index(steps, [2]string{s.Name, s.Service}) }
	slices.SortStableFunc(spans, func(a, b tracingtest.Span) int { return place(a) - place(b) })
	if len(spans) != len(steps) || spans[0].Name != steps[0][0] {
		t.Errorf("%s has %d spans, and not the steps %v: %+v", what, len(spans), steps, spans)
		return
	}
	for i, s := range spans {
		if place(s) != i || s.TraceID != trace || s.Parent != parent || s.Failed != "" || s.To.Before(s.From) {
			t.Errorf("%s: step %d, %v, is %+v; wanted in trace %s below %q", what, i, steps[i], s, trace, parent)
		}
		if i == 0 {
			parent = s.ID
		} else if s.From.Before(spans[i-1].From.Add(-guess)) {
			t.Errorf("%s: %s begins before %s: %+v", what, s.Name, spans[i-1].Name, spans)
		}
		if s.Service != "berth-agent" {
			continue
		}
		if s.Attributes["berth.host"] != "host-01" || s.Attributes["berth.attempt"] != "1" {
			t.Errorf("%s: %s says %v", what, s.Name, s.Attributes)
		}
	}
}

// guess is how far two times of a trace are from each other at most that were one: each process works out for each span
// what the brokers' clocks showed when it began.
const guess = time.Second

// idsBy are some ids that a tracer traces, or does not.
func idsBy(t *tracing.Tracer, traced bool) (out []compute.InstanceID) {
	for len(out) < 4 {
		id := compute.InstanceID(uuid.NewString())
		if (t.Begin(id, "", time.Time{}) != "") == traced {
			out = append(out, id)
		}
	}
	return out
}

func noDashes(id compute.InstanceID) string { return strings.ReplaceAll(string(id), "-", "") }

// bootTraced boots a machine with this id over the API.
func (r *rig) bootTraced(id compute.InstanceID, traceparent string) {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"flavor": "m1.small", "id": string(id), "project": "p"})
	r.must(err)
	to := "http://" + r.api + "/v1/instances"
	r.poll("a node that can takes a boot", func() bool {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, to, bytes.NewReader(body))
		r.must(err)
		req.Header.Set("Content-Type", "application/json")
		if traceparent != "" {
			req.Header.Set("traceparent", traceparent)
		}
		resp, err := http.DefaultClient.Do(req)
		r.must(err)
		r.must(resp.Body.Close())
		if !comeAgain(resp.StatusCode) && resp.StatusCode != http.StatusAccepted {
			r.t.Fatalf("%s is answered with %s", id, resp.Status)
		}
		return !comeAgain(resp.StatusCode)
	})
}

// publishTraced boots a machine with this id past the API.
func (r *rig) publishTraced(id compute.InstanceID, traceparent string) {
	r.t.Helper()
	rec := wire.EncodeRequest(compute.Request{
		Op: compute.OpBoot, Project: "p", Instance: id, Boot: &compute.Boot{Flavor: "m1.small"},
	})
	if traceparent != "" {
		rec.Headers = append(rec.Headers, wire.Header{Key: wire.HeaderTrace, Value: []byte(traceparent)})
	}
	r.send(rec.To(r.cell("").Topics().Requests(), wire.AnyPartition))
}

// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	instance  = compute.InstanceID("0af76519-16cd-43dd-8448-eb211c80319c")
	traced    = compute.Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	untraced  = compute.Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	malformed = compute.Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")
)

func TestBegin(t *testing.T) {
	all, none := &Tracer{ratio: 1}, &Tracer{}
	at := time.Date(2026, 5, 1, 2, 3, 4, 5, time.UTC)
	for _, c := range []struct {
		name   string
		tracer *Tracer
		caller compute.Trace
		want   string // how the answer begins; empty: it is empty
	}{
		{"nobody's", all, "", "00-0af7651916cd43dd8448eb211c80319c-"},
		{"left out", none, "", ""},
		{"a traced caller's", none, traced, "00-4bf92f3577b34da6a3ce929d0e0e4736-"},
		{"a caller's that is not traced", all, untraced, string(untraced)},
		{"one with a traceparent that is none", all, malformed, "00-0af7651916cd43dd8448eb211c80319c-"},
		{"one that is left out, with a traceparent that is none", none, malformed, ""},
		{"without a tracer", nil, traced, string(traced)},
		{"without a tracer or a caller", nil, "", ""},
	} {
		got := c.tracer.Begin(instance, c.caller, at)
		if !strings.HasPrefix(string(got), c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, not %q…", c.name, got, c.want)
		}
		if again := c.tracer.Begin(instance, c.caller, at); again != got {
			t.Errorf("%s: asked again it is %q, not %q", c.name, again, got)
		}
		if c.tracer != nil && c.caller == traced && got == traced {
			t.Errorf("%s: the boot has no span of its own", c.name)
		}
	}
	if got := all.Begin("i-1", "", at); got != "" {
		t.Errorf("what is no instance has the trace %s", got)
	}
}

// The ratio holds for ids as Berth makes them, and for those made of a project and a key.
func TestRatio(t *testing.T) {
	const n = 20_000
	source := rand.NewChaCha8([32]byte{1}) // the same ids each time: of any ids, one run in many thousands would be off
	for _, ratio := range []float64{0.01, 0.25, 0.9} {
		random, keyed := 0, 0
		tracer := &Tracer{ratio: ratio}
		for i := range n {
			if tracer.Begin(compute.InstanceID(uuid.Must(uuid.NewRandomFromReader(source)).String()), "", time.Time{}) != "" {
				random++
			}
			id := uuid.NewSHA1(uuid.NameSpaceURL, []byte{byte(i), byte(i >> 8)})
			if tracer.Begin(compute.InstanceID(id.String()), "", time.Time{}) != "" {
				keyed++
			}
		}
		for _, got := range []int{random, keyed} {
			if want := ratio * n; float64(got) < want*0.7 || float64(got) > want*1.3 {
				t.Errorf("%d of %d boots are traced with the ratio %v", got, n, ratio)
			}
		}
	}
}

func TestID(t *testing.T) {
	for trace, want := range map[compute.Trace]string{
		traced: "4bf92f3577b34da6a3ce929d0e0e4736", untraced: "", malformed: "", "": "", "x": "",
	} {
		if got := ID(trace); got != want {
			t.Errorf("%q is in trace %q, not %q", trace, got, want)
		}
		if f := Field(trace); f.String != want {
			t.Errorf("a log line of %q has the field %v", trace, f)
		}
	}
}

// What the header says is somebody else's: whatever it is, it is a trace or none.
func FuzzContext(f *testing.F) {
	for _, t := range []compute.Trace{traced, untraced, malformed, "", "00-", "ff-" + traced[3:], traced + "-x"} {
		f.Add(string(t))
	}
	all := &Tracer{ratio: 1}
	f.Fuzz(func(t *testing.T, header string) {
		got := all.Begin(instance, compute.Trace(header), time.Time{})
		if ID(got) == "" && string(got) != header {
			t.Errorf("%q becomes %q, which is no trace", header, got)
		}
	})
}

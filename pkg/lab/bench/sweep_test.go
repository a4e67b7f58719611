// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/service"
)

func swept(t *testing.T, vary string, repeat int) Sweep {
	t.Helper()
	s, err := ParseSweep(vary, repeat)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Values take turns, and change nothing but what varies.
func TestSweepRuns(t *testing.T) {
	o := Options{Hosts: 7}.WithDefaults()
	s := swept(t, "prepare-time=0,50ms,1.5s", 2)
	var got []string
	for i, r := range s.Options(o) {
		got = append(got, fmt.Sprintf("%v, %s", r.PrepareTime, r.Title))
		r.PrepareTime, r.Title = 0, ""
		if fmt.Sprint(r) != fmt.Sprint(o) {
			t.Errorf("run %d is %+v, want %+v", i, r, o)
		}
	}
	want := []string{
		"0s, prepare-time 0, 1 of 2", "50ms, prepare-time 50ms, 1 of 2", "1.5s, prepare-time 1.5s, 1 of 2",
		"0s, prepare-time 0, 2 of 2", "50ms, prepare-time 50ms, 2 of 2", "1.5s, prepare-time 1.5s, 2 of 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSweepRefuses(t *testing.T) {
	for _, c := range []struct {
		vary                 string
		repeat               int
		field, value, remedy string
	}{
		{"", 1, "vary", "", "as hosts=10,100,1000"},
		{"hosts", 1, "vary", "hosts", "as hosts=10,100,1000"},
		{"hosts=", 1, "vary", "hosts=", "as hosts=10,100,1000"},
		{"wishes=1", 1, "vary", "wishes", "give one of hosts, host-size, fill"},
		{"hosts=1,many", 1, "hosts", "many", "whole numbers"},
		{"hosts=1,", 1, "hosts", "", "whole numbers"},
		{"hosts=1.5", 1, "hosts", "1.5", "whole numbers"},
		{"partitions=4294967297", 1, "partitions", "4294967297", "whole numbers"},
		{"rate=NaN", 1, "rate", "NaN", "numbers"},
		{"rate=Inf", 1, "rate", "Inf", "numbers"},
		{"prepare-time=50", 1, "prepare-time", "50", "as 50ms"},
		{"hosts=1,2,1", 1, "hosts", "1", "it is there twice"},
		{"rate=5,5.0", 1, "rate", "5.0", "it is there twice"},
		{"hosts=1", 0, "repeat", "0", "from 1 to 100"},
		{"hosts=1", 101, "repeat", "101", "from 1 to 100"},
	} {
		_, err := ParseSweep(c.vary, c.repeat)
		e, ok := errors.AsType[*compute.Error](err)
		if !ok || e.Kind != compute.KindInvalid || e.Field != c.field || e.Value != c.value ||
			!strings.Contains(e.Remedy, c.remedy) {
			t.Errorf("%s: %v; want %s %q, %s", c.vary, err, c.field, c.value, c.remedy)
		}
	}
}

// unwanted is a product that must not run.
type unwanted struct{ t *testing.T }

func (u unwanted) Prepare(context.Context, lab.Site) error {
	u.t.Error("a run began")
	return errors.New("nothing is to run")
}

func (u unwanted) Part(lab.Site, lab.Role, string) (service.Part, func() string) {
	u.t.Error("a part was made")
	return nil, nil
}

func (u unwanted) Agent(lab.Site, lab.Host) (service.Part, func() agent.Stats) {
	u.t.Error("an agent was made")
	return nil, nil
}

// The last value is as wrong as the first: nobody waits an hour to hear of it.
func TestSweepChecksAllBeforeTheFirst(t *testing.T) {
	for vary, field := range map[string]string{
		"hosts=2,10001":       "hosts",
		"conductors=1,5":      "conductors",
		"replication=1,2":     "replication", // on one embedded broker
		"prepare-time=1s,-1s": "prepare-time",
		"host-size=900,1":     "host-size",
	} {
		o := Options{Data: t.TempDir(), Hosts: 2}.WithDefaults()
		measured, err := swept(t, vary, 1).Run(t.Context(), o, unwanted{t})
		e, ok := errors.AsType[*compute.Error](err)
		if !ok || e.Field != field || len(measured) > 0 {
			t.Errorf("%s: %d were measured, %v", vary, len(measured), err)
		}
	}
}

// That the last value needs more files than may be open is said before the first,
// too.
func TestSweepChecksFilesBeforeTheFirst(t *testing.T) {
	o := Options{Data: t.TempDir()}.WithDefaults()
	limit, err := raiseFiles(Options{})
	if err != nil {
		t.Fatal(err)
	}
	// One host's connections take half of what there is, three hosts' are too many.
	o.Kafka = strings.TrimSuffix(strings.Repeat("127.0.0.1:1,", int(limit)/filesOfAgent/2), ",")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody is there: a first run would wait
	measured, err := swept(t, "hosts=1,3", 1).Run(ctx, o, unwanted{t})
	if err == nil || !strings.Contains(err.Error(), `hosts "3": needs about`) || len(measured) > 0 {
		t.Errorf("%d were measured, %v", len(measured), err)
	}
}

func TestSweepRows(t *testing.T) {
	broker, stolen := 1.0, 0.5
	run := func(value, n float64) Measured {
		return Measured{value, Result{
			Boots: 100, BootsPerS: n, AcceptedGrantedMS: Quantiles{P50: n, P99: 10 * n},
			ActiveMS: Quantiles{P99: 20 * n}, Connections: int64(n),
			CPU: CPU{Share: Share[float64]{Broker: &broker, Berth: n}, Stolen: &stolen},
			Requests: map[lab.Role]map[string]Requests{
				"agent": {"Fetch": {PerBoot: n}},
				"api":   {"Produce": {PerBoot: 1}},
			},
			Bytes:   map[lab.Role]Bytes{"agent": {Sent: 1000 * n, Received: 500}, "api": {Sent: 500}},
			Retries: 1, Error: 1, Refused: 2, Lost: int(n), Doubled: 1,
		}}
	}
	s := swept(t, "hosts=100,10,1000", 3)
	got := s.Rows([]Measured{run(100, 3), run(10, 1), run(100, 9), run(10, 2), run(100, 5)})
	want := []Row{
		{
			Value: 100, Text: "100", Runs: 3, BootsPerS: 5, P50: 5, P99: 50, ActiveP99: 100, CPUMS: 60,
			OursMS: 50, MissingS: 0.5,
			Requests: 6, KB: 6, Connections: 5, Retries: 3, NotActive: 9, Lost: 17, Doubled: 3,
		},
		{
			Value: 10, Text: "10", Runs: 2, BootsPerS: 1.5, P50: 1.5, P99: 15, ActiveP99: 30, CPUMS: 25,
			OursMS: 15, MissingS: 0.5,
			Requests: 2.5, KB: 2.5, Connections: 1.5, Retries: 2, NotActive: 6, Lost: 3, Doubled: 2,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A floor is shown where there is one, and what is not known of a broker is none.
func TestSweepRowOfLittle(t *testing.T) {
	r := rowOf(
		[]Result{
			{
				Boots: 10,
				CPU:   CPU{Share: Share[float64]{Berth: 0.1}},
				Floor: &Floor{AcceptedGrantedMS: Quantiles{P50: 2, P99: 3}},
			},
		},
	)
	if r.CPUMS != 10 || r.OursMS != 10 || r.MissingS != 0 || r.FloorP50 != 2 || r.FloorP99 != 3 {
		t.Errorf("got %+v", r)
	}
}

// A setter that changes another field than its name says is not seen in any number.
func TestSweepableSetsOneThing(t *testing.T) {
	for _, s := range sweepables() {
		for _, other := range sweepables() {
			var one, two Options
			s.set(&one, 3)
			other.set(&two, 3)
			if same := fmt.Sprint(one) == fmt.Sprint(two); same != (s.name == other.name) {
				t.Errorf("%s and %s set the same", s.name, other.name)
			}
		}
	}
	o := Options{}
	swept(t, "launch-time=0.1ms", 1).thing.set(&o, 0.1)
	if o.LaunchTime != 100*time.Microsecond {
		t.Errorf("launch time %v", o.LaunchTime)
	}
}

func FuzzParseSweep(f *testing.F) {
	for _, name := range Sweepable() {
		f.Add(name+"=1,2", 1)
		f.Add(name+"=1ms,-2h,0", 2)
		f.Add(name+"=1e400,NaN,-0,0x1p-2", 3)
	}
	f.Fuzz(func(t *testing.T, vary string, repeat int) {
		s, err := ParseSweep(vary, repeat)
		if err != nil {
			if e, ok := errors.AsType[*compute.Error](err); !ok || e.Kind != compute.KindInvalid || e.Remedy == "" {
				t.Errorf("%q: %v says not what to do", vary, err)
			}
			return
		}
		seen := map[float64]bool{}
		for _, v := range s.Values {
			if seen[v] || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%q: measures %v", vary, v)
			}
			seen[v] = true
		}
		runs := s.Options(Options{}.WithDefaults())
		if len(runs) != repeat*len(s.Values) || len(s.Values) != strings.Count(vary, ",")+1 {
			t.Errorf("%q: %d runs of %d values", vary, len(runs), len(s.Values))
		}
		for _, o := range runs {
			_ = o.Check() // must not panic
		}
	})
}

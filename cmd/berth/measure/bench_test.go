// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// benches runs `berth bench` on a product and answers what it printed and its
// exit code.
func benches(t *testing.T, product lab.Product, args ...string) (out, said string, code int) {
	t.Helper()
	code, out, said = typed(t.Context(), append([]string{"bench", "--data", t.TempDir()}, args...), benchOf(product))
	return out, said, code
}

func TestBench(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		out, said, code := benches(t, lab.Berth{}, "--kafka", strings.Join(b.Addrs, ","),
			"--hosts", "20", "--count", "100", "--rate", "200", "--warmup", "20", "--floor", "-o", "json")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, said)
		}
		var r bench.Result
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Boots != 100 || r.Active != 100 || r.Floor == nil || r.Floor.Boots != 100 || r.Floor.Lost != 0 {
			t.Errorf("got %s", out)
		}
		for name, q := range map[string]bench.Quantiles{
			"accept": r.AcceptMS, "queued": r.QueuedMS, "granted": r.GrantedMS, "active": r.ActiveMS,
			"the floor's active": r.Floor.ActiveMS,
		} {
			if q.P50 <= 0 || q.P90 < q.P50 || q.P99 < q.P90 || q.Max < q.P99 {
				t.Errorf("%s: %+v", name, q)
			}
		}
		if r.QueuedMS.P50 > r.GrantedMS.P50 || r.GrantedMS.P50 > r.ActiveMS.P50 {
			t.Errorf("steps out of order: queued %v, granted %v, active %v", r.QueuedMS, r.GrantedMS, r.ActiveMS)
		}
		// Each boot waits for the disk at least when it is taken.
		if r.Requests["agent"]["ShareFetch"].PerBoot <= 0 || r.Floor.Requests["conductor"]["Produce"].PerBoot <= 0 {
			t.Errorf("requests: %v, the floor's: %v", r.Requests, r.Floor.Requests)
		}
		if sent := r.Bytes["agent"].Sent; sent < 300 || r.Bytes["conductor"].Received < 300 ||
			r.Floor.Bytes["conductor"].Sent < 300 {
			t.Errorf("bytes: %v, the floor's: %v", r.Bytes, r.Floor.Bytes)
		}
		if want := 100 / float64(20*r.Settings.HostSize); math.Abs(r.Fill-want) > 0.001 {
			t.Errorf("fill %v, want %v: 100 machines on 20 hosts with room for %d", r.Fill, want, r.Settings.HostSize)
		}
		if r.Retries != r.Denied+r.Released+r.Attempts {
			t.Errorf(
				"%d retries: %d denied, %d released, %d attempts above 1",
				r.Retries,
				r.Denied,
				r.Released,
				r.Attempts,
			)
		}
		if r.Fsyncs < 100 || r.Connections < 20 || r.CPU.Berth <= 0 || r.RSS.Berth <= 0 {
			t.Errorf("%d fsyncs, %d connections, %v CPU, %v memory", r.Fsyncs, r.Connections, r.CPU, r.RSS)
		}
	})
}

var update = flag.Bool("update-bench", false, "write the golden shape of a result anew")

// The keys are promised to scripts, and so is what kind of thing each holds.
func TestBenchShape(t *testing.T) {
	out, said, code := benches(t, lab.Berth{}, "--hosts", "3", "--count", "5", "--warmup", "1", "--floor", "-o", "json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	theShapeIs(t, out, "bench.json")
}

// shapeOf replaces every value by what kind of thing it is.
func shapeOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = shapeOf(x)
			switch k { // keys that are of the run
			case "warnings":
				out[k] = "numbers by what was said"
			case "bytes_per_boot":
				out[k] = "sent and received by part"
			case "requests":
				if _, many := x.(map[string]any); many {
					out[k] = "per_boot and mean_ms by part and API"
				}
			}
		}
		return out
	case []any:
		return []string{"…"}
	case float64:
		return "number"
	case string:
		return "text"
	case bool:
		return "yes or no"
	}
	return "null"
}

func TestBenchTable(t *testing.T) {
	out, said, code := benches(t, lab.Berth{}, "--hosts", "3", "--count", "5", "--warmup", "0", "--via", "kafka")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	for _, want := range []string{
		"5 boots at 100/s via kafka on 3 hosts, 10 queues", "accepted→granted",
		"5 active, 0 error, 0 refused, 0 lost, 0 doubled",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestBenchChurn(t *testing.T) {
	out, said, code := benches(
		t,
		lab.Berth{},
		"--hosts",
		"8",
		"--host-size",
		"10",
		"--count",
		"100",
		"--rate",
		"100",
		"--churn",
		"-o",
		"json",
	)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	var r bench.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Active != 100 || r.Settings.Live != 56 {
		t.Errorf("%d active of 100 on hosts with room for 80, %d kept", r.Active, r.Settings.Live)
	}
}

func TestBenchClosed(t *testing.T) {
	out, said, code := benches(
		t,
		lab.Berth{},
		"--hosts",
		"3",
		"--count",
		"40",
		"--closed",
		"4",
		"--warmup",
		"4",
		"--floor",
	)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	for _, want := range []string{"40 boots 4 in flight via http", "40 active, 0 error, 0 refused, 0 lost, 0 doubled"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// Two rates on one cell, of which the second finds it empty again, and a bound
// that no boot keeps.
func TestBenchRamp(t *testing.T) {
	args := []string{"--hosts", "3", "--count", "24", "--rate", "2", "--warmup", "5", "--ramp", "--ramp-steps", "2"}
	var r bench.Result
	for range 3 { // a machine that stands still does not keep the first rate, and there is no second
		out, said, code := benches(t, lab.Berth{}, append(args, "--ramp-p99", "1h", "-o", "json")...)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, said)
		}
		r = bench.Result{}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Ramp != nil && len(r.Ramp.Steps) == 2 {
			break
		}
	}
	if r.Ramp == nil || len(r.Ramp.Steps) != 2 || r.Ramp.Steps[0].Active != 24 || r.Ramp.Steps[1].Active != 36 ||
		r.Ramp.Steps[1].Rate != 3 {
		t.Fatalf("got %+v", r.Ramp)
	}
	if knee := r.Ramp.Knee; knee == nil || knee.Boots != r.Boots || knee.ActiveMS != r.ActiveMS {
		t.Errorf("the knee is %+v, and the result is of %d boots: %+v", knee, r.Boots, r.ActiveMS)
	}
	if want := float64(r.Boots) / float64(3*r.Settings.HostSize); math.Abs(r.Fill-want) > 0.001 {
		t.Errorf("fill %v, want %v: the step before was to be deleted", r.Fill, want)
	}
	out, said, code := benches(t, lab.Berth{}, append(args, "--ramp-p99", "1ns")...)
	if code != 0 || !strings.Contains(out, "knee: below the first rate: at 2/s ") ||
		!strings.Contains(out, "24 active") {
		t.Errorf("exit %d, %s, printed\n%s", code, said, out)
	}
}

// Hosts end as full as was asked, though the warm-up has more boots than they have
// room for.
func TestBenchFill(t *testing.T) {
	out, said, code := benches(
		t,
		lab.Berth{},
		"--hosts",
		"3",
		"--count",
		"31",
		"--fill",
		"0.9",
		"--skew",
		"0.8",
		"--warmup",
		"70",
		"--burst",
		"31",
		"-o",
		"json",
	)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	var r bench.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Active != 31 || r.Fill != 0.886 || r.Settings.HostSize != 12 || r.Settings.GPUHosts != 0 {
		t.Errorf(
			"%d active, fill %v, hosts of %d, %d with GPUs; want 31 in room for 35",
			r.Active,
			r.Fill,
			r.Settings.HostSize,
			r.Settings.GPUHosts,
		)
	}
}

// One slot takes ten builds one after the other.
func TestBenchSlots(t *testing.T) {
	out, said, code := benches(
		t,
		lab.Berth{},
		"--hosts",
		"1",
		"--count",
		"10",
		"--burst",
		"10",
		"--warmup",
		"0",
		"--slots",
		"1",
		"--prepare-time",
		"50ms",
		"-o",
		"json",
	)
	var r bench.Result
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d: %s, %v", code, said, err)
	}
	if r.Active != 10 || r.GrantedMS.Max < 500 || r.Settings.Slots != 1 {
		t.Errorf(
			"%d active, the last one granted after %v ms with %d slot",
			r.Active,
			r.GrantedMS.Max,
			r.Settings.Slots,
		)
	}
}

// counting is a product whose conductors count each for itself.
type counting struct {
	lab.Berth
	conductors []*prometheus.Registry
}

func (p *counting) Part(s lab.Site, r lab.Role, name string) (service.Part, func() string) {
	if r == lab.RoleConductor {
		own := prometheus.NewRegistry()
		p.conductors = append(p.conductors, own)
		s.Metrics = func(lab.Role) prometheus.Registerer { return own }
	}
	return p.Berth.Part(s, r, name)
}

// The boots are shared among all conductors.
func TestBenchConductors(t *testing.T) {
	p := &counting{}
	_, said, code := benches(
		t,
		p,
		"--hosts",
		"2",
		"--count",
		"60",
		"--warmup",
		"0",
		"--conductors",
		"3",
		"--partitions",
		"6",
	)
	if code != 0 || len(p.conductors) != 3 {
		t.Fatalf("exit %d, %d conductors: %s", code, len(p.conductors), said)
	}
	active := 0.0
	for i, r := range p.conductors {
		n := decided(t, r, "active")
		if active += n; n == 0 || n == 60 {
			t.Errorf("conductor %d has decided that %v boots are active", i+1, n)
		}
	}
	if active != 60 {
		t.Errorf("%v are active all together, want 60", active)
	}
}

// decided is how often a conductor decided so.
func decided(t *testing.T, r *prometheus.Registry, decision string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "berth_conductor_decisions_total" && l.GetValue() == decision {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// Every node of a local Kafka counts.
func TestBenchReplication(t *testing.T) {
	kafkatest.Need(t)
	out, said, code := benches(
		t,
		lab.Berth{},
		"--kafka",
		"local",
		"--kafka-heap",
		"256m",
		"--replication",
		"2",
		"--hosts",
		"2",
		"--count",
		"10",
		"--warmup",
		"5",
		"-o",
		"json",
	)
	var r bench.Result
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d: %s, %v", code, said, err)
	}
	// Each of them has more than half of its heap, and the classes it runs.
	if r.Active != 10 || r.RSS.Broker == nil || *r.RSS.Broker < 400<<20 || r.CPU.Broker == nil ||
		r.Settings.Replicas != 2 {
		t.Errorf("%d active, %+v memory, %+v CPU", r.Active, r.RSS, r.CPU)
	}
}

func TestBenchClassic(t *testing.T) {
	out, said, code := benches(
		t,
		lab.Berth{},
		"classic",
		"--hosts",
		"5",
		"--rate",
		"200",
		"--warmup",
		"10",
		"-o",
		"json",
	)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	var c classic
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range c.Runs {
		got = append(
			got,
			fmt.Sprintf(
				"%d hosts, %d active, %d conductors, fill %v, burst %d",
				r.Hosts,
				r.Active,
				r.Settings.Conductors,
				r.Fill,
				r.Settings.Burst,
			),
		)
	}
	want := []string{
		"3 hosts, 31 active, 1 conductors, fill 0.886, burst 31",
		"3 hosts, 31 active, 4 conductors, fill 0.886, burst 31",
		"5 hosts, 45 active, 1 conductors, fill 0.9, burst 1",
		"5 hosts, 45 active, 2 conductors, fill 0.9, burst 1",
		"5 hosts, 45 active, 4 conductors, fill 0.9, burst 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(c.Published) != 3 {
		t.Errorf("published: %+v", c.Published)
	}
	for _, p := range c.Published {
		if share := float64(p.Retries) / float64(p.Requests); math.Abs(share-p.Retried) > 0.001 {
			t.Errorf("%d of %d are not %v", p.Retries, p.Requests, p.Retried)
		}
	}
}

// What is lost in one run is not forgotten over the others.
func TestBenchClassicFindsWhatIsWrong(t *testing.T) {
	p := &planted{
		fault: func(*planted, hypervisor.Driver, launch) error { return nil },
		specs: map[compute.InstanceID]hypervisor.Spec{},
	}
	out, said, code := benches(t, p, "classic", "--hosts", "5", "--count", "5", "--rate", "200", "--warmup", "0")
	if code != 1 || !strings.Contains(said, "1 lost, 0 doubled") {
		t.Errorf("exit %d: %s", code, said)
	}
	for _, want := range []string{"OF BOOTS", "1, 0", "PUBLISHED", "22.6 %", "51.6 %", "355–697", "6.5 %"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--hosts 0":                   "hosts",
		"--queues 0":                  "queues",
		"--rate -1":                   "rate",
		"--rate NaN":                  "rate",
		"--skew NaN":                  "skew",
		"--via pigeon":                "give http or kafka",
		"--burst 2000 --count 100":    "burst",
		"--closed 4 --burst 2":        "leave out --burst",
		"--ramp --closed 4":           "leave out --closed",
		"--ramp --churn":              "leave out --closed, --churn",
		"--ramp --ramp-steps 0":       "ramp-steps",
		"classic --hosts 0":           "hosts",
		"classic --hosts 9 --count 7": "give --count 8",
		"--skew 2":                    "skew",
		"--skew 0.5 --queues 1":       "give --queues 2",
		"--fill 1.1":                  "fill",
		"--fill 0.9 --host-size 3":    "leave out --host-size",
		"--fill 0.9 --count 17":       "give --count 18",
		"--slots 1001":                "slots",
		"--conductors 5":              "conductors",
		"--replication 2":             "replication",
		"--closed -1":                 "closed",
		"--host-size 1 --count 1000":  "give --host-size",
		"--kafka nowhere":             "give host:port",
		"--kafka-set a=b":             "kafka-set",
		"--apart --profile x":         "leave out --apart",
		"--hosts-per-process 0":       "hosts-per-process",
		"--idle 2h":                   "idle",
		"--kafka local --kafka-set x": "give NAME=VALUE",
	} {
		_, said, code := benches(t, lab.Berth{}, strings.Fields(args)...)
		if code == 0 || !strings.Contains(said, want) {
			t.Errorf("%s: exit %d, said %q, want %q in it", args, code, said, want)
		}
	}
}

// planted is a product with a fault in the first launch.
type planted struct {
	lab.Berth
	fault func(p *planted, own hypervisor.Driver, l launch) error

	mu      sync.Mutex
	done    bool
	drivers []hypervisor.Driver
	specs   map[compute.InstanceID]hypervisor.Spec
}

type launch struct {
	ctx     context.Context
	id      compute.InstanceID
	attempt compute.Attempt
	claim   compute.ClaimID
}

func (p *planted) Agent(s lab.Site, h lab.Host) (service.Part, func() agent.Stats) {
	p.drivers = append(p.drivers, h.Driver)
	h.Driver = &faulty{Driver: h.Driver, of: p}
	return p.Berth.Agent(s, h)
}

// first says once that it is the first launch.
func (p *planted) first() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.done
	p.done = true
	return !was
}

// faulty is the driver of one of its hosts.
type faulty struct {
	hypervisor.Driver
	of *planted
}

func (f *faulty) Prepare(ctx context.Context, s hypervisor.Spec) error {
	f.of.mu.Lock()
	f.of.specs[s.Instance] = s
	f.of.mu.Unlock()
	return f.Driver.Prepare(ctx, s)
}

func (f *faulty) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	if f.of.first() {
		return f.of.fault(f.of, f.Driver, launch{ctx, id, a, c})
	}
	return f.Driver.Launch(ctx, id, a, c)
}

func TestBenchFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(p *planted, own hypervisor.Driver, l launch) error
		says  []string
	}{
		"runs twice": {func(p *planted, own hypervisor.Driver, l launch) error {
			other := p.drivers[0]
			if other == own {
				other = p.drivers[1]
			}
			p.mu.Lock()
			spec := p.specs[l.id]
			p.mu.Unlock()
			spec.Resources = nil // that host may be full
			return errors.Join(own.Launch(l.ctx, l.id, l.attempt, l.claim),
				other.Prepare(l.ctx, spec), other.Launch(l.ctx, l.id, l.attempt, l.claim))
		}, []string{"0 lost, 1 doubled", "was launched 2 times, and the log says active"}},
		"is said to run": {
			func(*planted, hypervisor.Driver, launch) error { return nil },
			[]string{"1 lost, 0 doubled", "is active and was never launched"},
		},
		"hangs": {func(_ *planted, _ hypervisor.Driver, l launch) error {
			<-l.ctx.Done()
			return l.ctx.Err()
		}, []string{"1 lost, 0 doubled", "is starting on host-000"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &planted{fault: c.fault, specs: map[compute.InstanceID]hypervisor.Spec{}}
			stall := "60s"
			if name == "hangs" { // which it waits out
				stall = "30s"
			}
			out, said, code := benches(t, p, "--hosts", "3", "--count", "20", "--warmup", "0", "--stall", stall)
			if code != 1 || !strings.Contains(out, "20 boots") {
				t.Errorf("exit %d, printed %q", code, out)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("said %q, want %q", said, want)
				}
			}
		})
	}
}

// interrupting calls a run off when it is told of something.
type interrupting struct {
	when   string
	cancel context.CancelFunc
}

func (i interrupting) Write(b []byte) (int, error) {
	if strings.Contains(string(b), i.when) {
		i.cancel()
	}
	return len(b), nil
}

// Whenever it is interrupted, it leaves nothing behind.
func TestBenchInterrupted(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for i, when := range []string{"Berth on", "warming up", "measuring", "floor"} {
			prefix := fmt.Sprintf("%sbench%d.", b.Prefix, i)
			ctx, cancel := context.WithCancel(t.Context())
			data := t.TempDir()
			_, err := bench.Run(ctx, bench.Options{
				Kafka: strings.Join(
					b.Addrs,
					",",
				),
				Prefix: prefix, Data: data, Hosts: 5, Count: 50, Warmup: 10, Floor: true,
				Say: interrupting{when, cancel},
			}, lab.Berth{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want that it was called off", when, err)
			}
			files, err := os.ReadDir(data)
			if err != nil || len(files) > 0 {
				t.Errorf("%s: %v left in the data folder (%v)", when, files, err)
			}
			if left := cellTopics(t, b.Addrs, prefix); len(left) > 0 {
				t.Errorf("%s: topics left: %v", when, left)
			}
			cancel()
		}
	})
}

// A bench that is interrupted and cannot delete what it has made says so, with why; any other that is interrupted has
// deleted it, and what has another reason stays as it is.
func TestBenchCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left := &bench.LeftError{Cause: errors.New(`clean up what begins with "mine.": refused`)}
	for _, c := range []struct {
		err  error
		says string
	}{
		{context.Canceled, "bench: was interrupted; what it had made is deleted"},
		{
			errors.Join(context.Canceled, left), `bench: was interrupted, and could not delete what it had made; ` +
				`delete that by hand: clean up what begins with "mine.": refused`,
		},
		{left, `clean up what begins with "mine.": refused`},
	} {
		if err := calledOff(ctx, c.err); err == nil || err.Error() != c.says {
			t.Errorf("of %v it says %v, want %s", c.err, err, c.says)
		}
	}
}

// cellTopics are the topics of a cell that exist, those of its queues and of the
// floor's included.
func cellTopics(t *testing.T, addrs []string, prefix string) []string {
	t.Helper()
	var left []string
	for _, prefix := range []string{prefix, prefix + "floor."} {
		names := wire.Topics{Prefix: prefix}
		admin, err := kafkaadmin.New(kafka.Config{Brokers: addrs, Topics: names})
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		queues, err := admin.QueueTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for q := range queues {
			left = append(left, names.Build(q))
		}
		ids, err := admin.TopicIDs(
			t.Context(),
			names.Requests(),
			names.Reports(),
			names.Instances(),
			names.Catalog(),
			names.Hosts(),
			names.Host("host-0001"),
		)
		if err != nil {
			t.Fatal(err)
		}
		for topic := range ids {
			left = append(left, topic)
		}
	}
	slices.Sort(left)
	return left
}

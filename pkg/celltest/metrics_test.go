// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

// measured is a whole Berth with metrics: one host with room for five machines,
// and a project that may have eight.
func measured(t *testing.T, b kafkatest.Broker, fault func(fake.Call) *fake.Fault) (*rig, *client.Client) {
	t.Helper()
	h := smallHost(1)
	h.Inventory.Totals = compute.Resources{compute.VCPU: 5, compute.MemoryMB: 64 << 10, compute.DiskGB: 500}
	h.Driver.Fault = fault
	r := newRig(t, b, h)
	r.metrics = telemetry.NewMetrics()
	r.up()
	c := r.as("p")
	_, err := c.SetQuota(t.Context(), compute.Quota{Project: "p", Limits: compute.Resources{compute.Instances: 8}})
	r.must(err)
	// A conductor that has read of the flavor has read of the quota before it.
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	return r, c
}

// counts fails the test if a metric does not soon come to a value.
func (r *rig) counts(want float64, family string, labels ...string) {
	r.t.Helper()
	var got float64
	r.poll(fmt.Sprintf("%s %v is %v", family, labels, want), func() bool {
		got, _ = telemetrytest.Value(r.t, r.metrics.Gatherer(), family, labels...)
		return got == want
	})
}

// What every part counts is what happened.
func TestMetricsSayWhatHappened(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		var held atomic.Pointer[gate]
		r, c := measured(t, b, func(call fake.Call) *fake.Fault {
			if g := held.Load(); g != nil {
				return g.fault(call)
			}
			return nil
		})
		what := compute.Boot{Flavor: "m1.small"}
		first := r.boot(c, 5, what)
		r.await(first, compute.StateActive)
		r.counts(5, "berth_conductor_decisions_total", "decision", "admitted")
		r.counts(5, "berth_conductor_decisions_total", "decision", "granted")
		r.counts(5, "berth_conductor_instances", "state", "active")
		r.counts(5, "berth_host_machines", "host", "host-01")
		r.counts(0, "berth_host_free", "host", "host-01", "resource", "VCPU")

		more := r.boot(c, 3, what)
		r.await(more, compute.StateQueued)
		r.counts(3, "berth_queue_depth", "queue", "m1.small")
		r.counts(0, "berth_queue_eligible_hosts", "queue", "m1.small")
		const oldest = "berth_queue_oldest_age_seconds"
		if age, _ := telemetrytest.Value(t, r.metrics.Gatherer(), oldest, "queue", "m1.small"); age <= 0 {
			t.Errorf("the oldest of three has waited %v s", age)
		}
		r.await(r.boot(c, 1, what), compute.StateError)
		r.counts(1, "berth_conductor_decisions_total", "decision", "refused", "reason", "QuotaExceeded")

		r.delete(c, first[:3])
		r.await(first[:3], compute.StateDeleted)
		r.await(more, compute.StateActive)
		r.counts(0, "berth_queue_depth", "queue", "m1.small")
		r.counts(8, "berth_conductor_decisions_total", "decision", "admitted")
		r.counts(8, "berth_conductor_decisions_total", "decision", "granted")
		r.counts(3, "berth_conductor_decisions_total", "decision", "deleted")
		r.counts(8, "berth_agent_launches_total")
		r.counts(9, "berth_api_boots_total", "boot", "new")

		lostRace(r, c, &held)
		r.counts(1, "berth_agent_denied_total")
		r.poll("the claim is denied", func() bool { // more than once if it had no answer within 5 s and was made again
			denied := []string{"decision", "denied", "reason", "Cancelled"}
			n, _ := telemetrytest.Value(t, r.metrics.Gatherer(), "berth_conductor_decisions_total", denied...)
			return n > 0
		})
		r.counts(0, "berth_conductor_instances", "state", "queued")
		r.counts(0, "berth_loop_lag_records")
		r.counts(4, "berth_loop_partitions", "state", "ready")
		r.counts(1, "berth_hosts", "state", "enabled")
		r.counts(1, "berth_queue_manager_active")
		code, text := get(t, "http://"+r.api+"/metrics")
		if code != http.StatusOK || !strings.Contains(text, "\nberth_agent_launches_total 8\n") {
			t.Errorf("/metrics: %d\n%s", code, text)
		}
	})
}

// lostRace deletes an instance while a host prepares it.
func lostRace(r *rig, c *client.Client, held *atomic.Pointer[gate]) {
	r.t.Helper()
	g := newGate(r.t, "Prepare")
	held.Store(g)
	active := r.seen.all(compute.StateActive)
	r.delete(c, active[:1])
	lost := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
	<-g.arrived
	r.delete(c, lost)
	r.await(lost, compute.StateDeleted)
	g.release()
}

// all lists the instances in a state.
func (w *witness) all(s compute.State) []compute.InstanceID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []compute.InstanceID
	for id, inst := range w.now {
		if inst.State == s {
			ids = append(ids, id)
		}
	}
	return ids
}

// docs/METRICS.md has every metric there is, and no other; BERTH_UPDATE=1 writes
// the tables anew.
func TestMetricsAreDocumented(t *testing.T) {
	r, c := measured(t, kafkatest.Embedded(t), nil)
	ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	r.delete(c, ids)
	r.await(ids, compute.StateDeleted)

	var all []family
	r.poll("something is seen of every metric whose name does not tell its kind", func() bool {
		all = families(t, r.metrics)
		return !slices.ContainsFunc(all, func(f family) bool { return f.kind == "" })
	})
	problems, err := testutil.GatherAndLint(r.metrics.Gatherer())
	r.must(err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "berth_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	path := filepath.Join("..", "..", "docs", "METRICS.md")
	text, err := os.ReadFile(path)
	r.must(err)
	before, rest, ok := strings.Cut(string(text), beginTables)
	_, after, ok2 := strings.Cut(rest, endTables)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tables", path)
	}
	want := before + beginTables + "\n\n" + tables(t, all) + endTables + after
	for _, name := range regexp.MustCompile(`berth_[a-z0-9_]+`).FindAllString(before+after, -1) {
		if !slices.ContainsFunc(all, func(f family) bool { return f.covers(name) }) {
			t.Errorf("%s names %s, which there is not", path, name)
		}
	}
	for _, f := range all {
		for _, l := range f.labelNames() {
			if !strings.Contains(before, "`"+l+"`: ") {
				t.Errorf("%s does not say how many values label %s of %s may have", path, l, f.name)
			}
		}
	}
	switch {
	case want == string(text):
	case os.Getenv("BERTH_UPDATE") != "":
		r.must(os.WriteFile(path, []byte(want), 0o644))
	default:
		t.Errorf("%s does not have the metrics as they are; run this test with BERTH_UPDATE=1", path)
	}
}

const (
	beginTables = "<!-- the tables below are written by TestMetricsAreDocumented -->"
	endTables   = "<!-- up to here -->"
)

// family is what there is to say of a metric.
type family struct{ name, kind, help, labels string }

// covers says whether a name in an expression is of this family.
func (f family) covers(name string) bool {
	if f.kind == "histogram" {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
	}
	return name == f.name || strings.HasSuffix(name, "_") && strings.HasPrefix(f.name, name) // berth_host_…
}

func (f family) labelNames() []string {
	return strings.FieldsFunc(f.labels, func(r rune) bool { return r == ',' })
}

// families lists Berth's own metrics: also those that show nothing yet, of which
// only the name tells the kind.
func families(t *testing.T, m *telemetry.Metrics) []family {
	t.Helper()
	seen, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, f := range seen {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	desc := regexp.MustCompile(`fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{(.*)\}\}$`)
	descs := make(chan *prometheus.Desc, 1000)
	m.Registerer().(*prometheus.Registry).Describe(descs)
	close(descs)
	var all []family
	for d := range descs {
		parts := desc.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("cannot read %s", d)
		}
		f := family{name: parts[1], kind: kinds[parts[1]], labels: parts[3]}
		if f.help, err = strconv.Unquote(parts[2]); err != nil {
			t.Fatal(err)
		}
		if f.kind == "" && strings.HasSuffix(f.name, "_total") {
			f.kind = "counter"
		}
		if !strings.HasPrefix(f.name, "berth_") {
			continue
		}
		if f.help == "" {
			t.Errorf("%s has no help", f.name)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	return all
}

// sections are the tables: by the beginning of the name, the longest first.
var sections = []struct{ title, prefixes string }{
	{"API node", "berth_api_ berth_catalog_"},
	{"Conductor: decisions and instances", "berth_conductor_"},
	{"Conductor: the loop over Kafka", "berth_loop_"},
	{"Queue manager: queues and hosts", "berth_queue berth_hosts"},
	{"Agent", "berth_agent_"},
	{"Hosts, each by its own agent", "berth_host_"},
	{"Queues as agents see them", "berth_pull_"},
	{"HTTP server, in every process", "berth_http_"},
	{"Kafka, in every process", "berth_kafka_ berth_produce_ berth_read_"},
	{"Every process", "berth_build_"},
}

func tables(t *testing.T, all []family) string {
	t.Helper()
	var out strings.Builder
	left := slices.Clone(all)
	for _, s := range sections {
		fmt.Fprintf(&out, "### %s\n\n", s.title)
		left = slices.DeleteFunc(left, func(f family) bool {
			if !slices.ContainsFunc(
				strings.Fields(s.prefixes),
				func(p string) bool { return strings.HasPrefix(f.name, p) },
			) {
				return false
			}
			labels := ""
			if f.labels != "" {
				labels = "{" + strings.Join(f.labelNames(), ", ") + "}"
			}
			kind := "" // of a counter the name tells it, and most others are gauges
			if f.kind == "histogram" {
				kind = "Histogram. "
			}
			first, _, _ := strings.Cut(f.help, ". ")
			fmt.Fprintf(&out, "* `%s%s`: %s%s.\n", f.name, labels, kind, strings.TrimSuffix(first, "."))
			return true
		})
		out.WriteString("\n")
	}
	for _, f := range left {
		t.Errorf("%s is in no table", f.name)
	}
	return out.String()
}

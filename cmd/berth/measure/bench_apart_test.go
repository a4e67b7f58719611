// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// benchesApart runs `berth bench --apart`, whose processes are this test binary
// again.
func benchesApart(t *testing.T, args ...string) (r bench.Result, said string) {
	t.Helper()
	t.Setenv(asBerth, "1")
	out, said, code := benches(
		t,
		lab.Berth{},
		append(
			[]string{"--apart", "--hosts", "5", "--hosts-per-process", "2", "--warmup", "10", "-o", "json"},
			args...)...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r, said
}

// Five hosts in three processes place as one process does, and each role has
// requests and processor time of its own. The broker is in the bench's process.
func TestBenchApart(t *testing.T) {
	r, said := benchesApart(t, "--count", "60", "--rate", "100", "--idle", "1s", "--conductors", "2", "--floor")
	if r.Active != 60 || r.Lost != 0 || r.Floor == nil || r.Floor.Boots != 60 {
		t.Errorf("%d active of 60, %d lost, floor %v: %s", r.Active, r.Lost, r.Floor, said)
	}
	if want := 60 / float64(5*r.Settings.HostSize); math.Abs(r.Fill-want) > 0.001 {
		t.Errorf("fill %v, want %v", r.Fill, want)
	}
	if r.Fsyncs < 60 || r.Connections < 15 {
		t.Errorf("%d fsyncs, %d connections: the agents' processes are left out", r.Fsyncs, r.Connections)
	}
	for _, role := range []lab.Role{lab.RoleAPI, lab.RoleConductor, lab.RoleQueues, lab.RoleAgent, lab.RoleLoad} {
		if r.CPU.Roles[role] <= 0 || r.Bytes[role].Sent <= 0 || len(r.Requests[role]) == 0 {
			t.Errorf("%s: %v s, %+v bytes, requests %v", role, r.CPU.Roles[role], r.Bytes[role], r.Requests[role])
		}
	}
	if _, known := r.CPU.Roles[lab.RoleBroker]; known || r.CPU.Centre != nil {
		t.Errorf("of an embedded broker is known %v, of the centre %v", r.CPU.Roles, r.CPU.Centre)
	}
	if r.Idle == nil || r.Idle.Seconds < 1 || r.Idle.CPU.Roles[lab.RoleAgent] < 0 {
		t.Errorf("idle: %+v", r.Idle)
	}
	if len(r.Warnings) > 0 {
		t.Logf("warned: %v", r.Warnings)
	}
}

// What clients of all roles asked is what the broker says it was asked: for each
// kind of request, but those that brokers make themselves.
func TestBenchApartCountsWhatTheBrokerCounts(t *testing.T) {
	kafkatest.Need(t)
	r, said := benchesApart(
		t,
		"--kafka",
		"local",
		"--kafka-heap",
		"256m",
		"--count",
		"60",
		"--rate",
		"50",
		"--idle",
		"2s",
	)
	if r.Active != 60 || r.CPU.Broker == nil || r.Served == nil || r.Idle == nil || r.Idle.Served == nil {
		t.Fatalf("%d active, CPU %+v, served %+v, idle %+v: %s", r.Active, r.CPU, r.Served, r.Idle, said)
	}
	asked := map[string]float64{}
	for _, apis := range r.Requests {
		for api, n := range apis {
			asked[api] += n.PerBoot
		}
	}
	// A few are answered between the two looks at the clients and at the broker, more of those that are asked all the
	// time.
	const few = 15.0 / 60
	for api, n := range asked {
		margin := few
		if api == "Fetch" || api == "ShareFetch" {
			margin = max(few, n/4)
		}
		if served := r.Served.Requests[api]; math.Abs(served-n) > margin {
			t.Errorf("%s: clients asked %v times a boot, the broker served %v", api, n, served)
		}
	}
	for _, api := range []string{"Produce", "Fetch", "ShareFetch"} {
		if asked[api] <= 0 || r.Served.Requests[api] <= 0 {
			t.Errorf("%s: clients asked %v times a boot, the broker served %v", api, asked[api], r.Served.Requests[api])
		}
	}
	if s := r.Served; s.LockReleases <= 0 || s.RecordBytesIn < 300 || s.BytesIn < s.RecordBytesIn || s.BytesOut < 300 {
		t.Errorf("served: %+v", s)
	}
	sum := 0.0
	for _, role := range []lab.Role{lab.RoleBroker, lab.RoleAPI, lab.RoleConductor, lab.RoleQueues} {
		sum += r.CPU.Roles[role]
	}
	if r.CPU.Centre == nil || math.Abs(*r.CPU.Centre-sum) > 0.002 || *r.CPU.Centre <= *r.CPU.Broker {
		t.Errorf("centre %v, its roles %v together: %v", r.CPU.Centre, sum, r.CPU.Roles)
	}
	if n := *r.CPU.CentreMS * 60 / 1000; math.Abs(n-*r.CPU.Centre) > 0.01 {
		t.Errorf("%v ms a boot are %v s, the centre took %v", *r.CPU.CentreMS, n, *r.CPU.Centre)
	}
}

// The table has a row for each role.
func TestBenchApartTable(t *testing.T) {
	t.Setenv(asBerth, "1")
	out, said, code := benches(
		t,
		lab.Berth{},
		"--apart",
		"--hosts",
		"2",
		"--count",
		"5",
		"--warmup",
		"1",
		"--idle",
		"100ms",
	)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	for _, want := range []string{"CPU MS/BOOT", "\ncentre ", "\nagent ", "\nload ", "\nqueues ", "idle: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// Called off at any moment, it ends its processes and leaves no topic behind.
func TestBenchApartInterrupted(t *testing.T) {
	t.Setenv(asBerth, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	broker := kafkatest.Embedded(t)
	for _, when := range []string{"Berth on", "warming up", "idle", "measuring"} {
		ctx, cancel := context.WithCancel(t.Context())
		data := t.TempDir()
		_, err := bench.Run(ctx, bench.Options{
			Kafka: strings.Join(
				broker.Addrs,
				",",
			),
			Prefix: broker.Prefix, Data: data, Hosts: 3, HostsEach: 2, Count: 50, Warmup: 10,
			Apart: true, Self: []string{self, "bench", partCommand}, Idle: time.Second, Say: interrupting{when, cancel},
		}, lab.Berth{})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that it was called off", when, err)
		}
		if files, err := os.ReadDir(data); err != nil || len(files) > 0 {
			t.Errorf("%s: %v left in the data folder (%v)", when, files, err)
		}
		if left := cellTopics(t, broker.Addrs, broker.Prefix); len(left) > 0 {
			t.Errorf("%s: topics left: %v", when, left)
		}
	}
}

// A process that cannot be what it was started for ends the run, which says why.
func TestBenchApartProcessThatFails(t *testing.T) {
	t.Setenv(asBerth, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	_, err = bench.Run(t.Context(), bench.Options{
		Data: t.TempDir(), Hosts: 3, Count: 5, Apart: true, Self: []string{self, "bench", "nothing-of-this-name"},
		Say: &said,
	}, lab.Berth{})
	if err == nil || !strings.Contains(said.String(), "nothing-of-this-name") {
		t.Errorf("%v, said %q", err, said.String())
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/wire"
)

// Once a second agent has spoken under the name of a host, host list and host show say so of that host and name the
// other agent's journal; the second agent ends with how to go on.
func TestHostListShowsTwins(t *testing.T) {
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	hosts := cell.SimulatedHosts(2)
	o := cell.EverythingOptions{Kafka: broker.Addrs(), Hosts: hosts, Listen: "127.0.0.1:0"}
	err = cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		list := func(rest ...string) string {
			return saysOf(ctx, t, append([]string{"host"}, rest...), address)
		}
		row := func() string {
			for line := range strings.Lines(list("list")) {
				if strings.HasPrefix(line, "host-01 ") {
					return line
				}
			}
			return ""
		}
		becomes(t, row, "host-01  enabled ")
		host, err := fake.NewWorld().Host("host-01", hosts[0].Inventory)
		if err != nil {
			return err
		}
		twin := cell.AgentOptions{Host: "host-01", State: t.TempDir(), Driver: fake.NewDriver(host, fake.Options{})}
		k := cell.KafkaSettings{Brokers: broker.Addrs(), Prefix: wire.DefaultPrefix, Partitions: 4}
		second, err := cell.NewAgent(cell.New(k, nil, zap.NewNop(), "twin"), twin)
		if err != nil {
			return err
		}
		if err := second.Run(ctx); err == nil || !strings.Contains(err.Error(), "host-01") {
			t.Errorf("the second agent ends with %v", err)
		}
		const why = "another agent speaks for this host: journal "
		journal := string(id(t, twin))
		becomes(t, row, why+journal)
		if line := row(); !strings.Contains(line, " "+compute.HostQuarantined.String()+" ") {
			t.Errorf("host list says %s", line)
		}
		if shown := list("show", "host-01"); !strings.Contains(shown, why+journal) {
			t.Errorf("host show says %s", shown)
		}
		if others := list("list"); strings.Count(others, why) != 1 {
			t.Errorf("host list says so of another host: %s", others)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// saysOf is what a command prints that succeeds.
func saysOf(ctx context.Context, t *testing.T, args []string, address string) string {
	t.Helper()
	code, out, errs := typed(ctx, append(args, "--api", "http://"+address))
	if code != 0 {
		t.Fatalf("berth %v: exit code %d: %s", args, code, errs)
	}
	return out
}

// becomes asks until the answer has what it should.
func becomes(t *testing.T, ask func() string, want string) {
	t.Helper()
	is := ask()
	for lost := time.Now().Add(soonEnough); !strings.Contains(is, want); is = ask() {
		if time.Now().After(lost) {
			t.Fatalf("never %q, at last %q", want, is)
		}
	}
}

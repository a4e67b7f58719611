// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A partition that conductors have set aside is brought back by the command that its alert names: without --yes it
// changes nothing, and of a partition that conductors can go on with it refuses to. A metric shows the partition as long
// as it is aside.
func TestResetPosition(t *testing.T) {
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	k := cell.KafkaSettings{Brokers: broker.Addrs(), Prefix: wire.DefaultPrefix, Partitions: 4}
	c := cell.New(k, nil, zap.NewNop(), "test")
	if err := c.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	leads, err := kafkatest.AskLeads(broker.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	defer leads.Close()
	if err := leads.Commit(t.Context(), c.Topics().ConductorGroup(), c.Topics().Reports(), 1, 1<<40); err != nil {
		t.Fatal(err)
	}
	o := cell.EverythingOptions{Kafka: broker.Addrs(), Hosts: cell.SimulatedHosts(2), Listen: "127.0.0.1:0"}
	err = cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		metrics := func() string { return fetched(ctx, t, "http://"+address+"/metrics") }
		reset := func(want int, more ...string) (string, string) {
			t.Helper()
			args := append([]string{"conductor", "reset-position", "--kafka", broker.Addrs()[0]}, more...)
			code, out, errs := typed(ctx, args, newConductorDaemon())
			for lost := time.Now().Add(soonEnough); unreached(errs) && time.Now().Before(lost); {
				code, out, errs = typed(ctx, args, newConductorDaemon())
			}
			if code != want {
				t.Fatalf("berth %v: exit code %d, want %d: %s%s", args, code, want, out, errs)
			}
			return out, errs
		}
		becomes(t, metrics, `berth_loop_partitions{state="aside"} 1`)
		becomes(t, func() string {
			p, err := loop.PositionOf(ctx, c.Kafka, 1)
			if err == nil && p.Aside {
				return "written down"
			}
			return ""
		}, "written down")
		if _, errs := reset(8, "--partition", "0", "--yes"); !strings.Contains(errs, "that conductors can go on from") {
			t.Errorf("of a partition that is right: %s", errs)
		}
		for range 2 {
			if out, _ := reset(0, "--partition", "1"); !strings.Contains(out, "Nothing was changed") {
				t.Errorf("without --yes: %s", out)
			}
		}
		if out, _ := reset(0, "--partition", "1", "-o", "json"); !strings.Contains(out, `"done": false`) {
			t.Errorf("without --yes, as data: %s", out)
		}
		if out, _ := reset(0, "--partition", "1", "--yes"); !strings.Contains(out, "Done.") ||
			!strings.Contains(out, c.Topics().Reports()) {
			t.Errorf("with --yes: %s", out)
		}
		becomes(t, metrics, `berth_loop_partitions{state="aside"} 0`)
		becomes(t, metrics, `berth_loop_partitions{state="ready"} 4`)
		reset(8, "--partition", "1", "--yes")
		for _, line := range []string{
			"flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB",
			"boot --flavor m1.small --name web --count 16 --wait", // of so many partition 1 has some
		} {
			saysOf(ctx, t, strings.Fields(line), address)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fetched is what an address answers.
func fetched(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

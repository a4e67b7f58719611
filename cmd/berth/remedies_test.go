// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestRemediesHelp: what docs/troubleshoot.md says to do at a reason has the effect that it promises, for those reasons
// that a cell of two simulated hosts can be brought to. Each reason has a project of its own, with the machine m.
func TestRemediesHelp(t *testing.T) {
	o := cell.EverythingOptions{
		Hosts: cell.SimulatedHosts(2), Listen: "127.0.0.1:0",
		Timing: agent.Timing{BeaconApart: 100 * time.Millisecond}, // hosts say at once what has changed
	}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		t.Setenv(cli.EnvAPI, "http://"+address)
		mustType(t, ctx, "flavor add small --vcpus 1 --memory 1GiB --disk 1GiB")
		mustType(t, ctx, "flavor add huge --vcpus 9000 --memory 1GiB --disk 1GiB")
		for _, c := range []struct {
			code    compute.ReasonCode
			provoke []string
			remedy  []string
		}{
			{compute.QuotaExceeded, []string{"quota set PROJECT --instances 0", "boot --flavor small --name m"},
				[]string{"quota set PROJECT --instances 20", "boot --flavor small --name n --wait --timeout 1m"}},
			{compute.NoEligibleHost, []string{
				"host disable host-01 --wait", "host disable host-02 --wait", "boot --flavor small --name m",
			}, []string{
				"host enable host-01", "host enable host-02 --wait", "boot --flavor small --name n --wait --timeout 1m",
			}},
			{compute.NeverFits, []string{"boot --flavor huge --name m"},
				[]string{"delete m", "boot --flavor small --name n --wait --timeout 1m"}},
			{compute.PinnedHostUnavailable, []string{
				"host disable host-01 --wait", "boot --flavor small --name m --host host-01",
			}, []string{"boot --flavor small --name n --wait --timeout 1m", "host enable host-01 --wait"}},
			{compute.DeadlineExceeded, []string{"boot --flavor huge --name m --deadline 1s"},
				[]string{"boot --flavor small --name n --wait --timeout 1m"}},
			{compute.Cancelled, []string{"boot --flavor huge --name m", "delete m --wait"},
				[]string{"boot --flavor small --name n --wait --timeout 1m"}},
			{compute.StoppedByCommand, []string{"boot --flavor small --name m --wait --timeout 1m", "stop m --wait"},
				[]string{"start m --wait"}},
		} {
			t.Run(string(c.code), func(t *testing.T) {
				project := strings.ToLower(string(c.code))
				t.Setenv(cli.EnvProject, project)
				for _, line := range c.provoke {
					mustType(t, ctx, strings.ReplaceAll(line, "PROJECT", project))
				}
				awaitReason(t, ctx, c.code)
				for _, line := range c.remedy {
					mustType(t, ctx, strings.ReplaceAll(line, "PROJECT", project))
				}
			})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func mustType(t *testing.T, ctx context.Context, line string) {
	t.Helper()
	if code, out, errs := typed(ctx, strings.Fields(line)); code != 0 {
		t.Fatalf("berth %s: exit code %d: %s%s", line, code, out, errs)
	}
}

// awaitReason waits until the machine m shows the code.
func awaitReason(t *testing.T, ctx context.Context, want compute.ReasonCode) {
	t.Helper()
	shown := ""
	for lost := time.Now().Add(soonEnough); time.Now().Before(lost); {
		code, out, _ := typed(ctx, []string{"list", "--all", "--name", "m", "-o", "json"})
		if shown = out; code != 0 {
			continue
		}
		var all []client.Instance
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, i := range all {
			for _, r := range []*client.Reason{i.Waiting, i.Reason, i.Stopped} {
				if r == nil || r.Code != want {
					continue
				}
				if strings.HasSuffix(strings.TrimSpace(r.Message), ":") {
					t.Errorf("it says %q, and nothing behind the colon", r.Message)
				}
				return
			}
		}
	}
	t.Fatalf("%s is never shown:\n%s", want, shown)
}

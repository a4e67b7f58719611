// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestRemediesHelp: what docs/troubleshoot.md says to do at a reason has the effect that it promises, for those reasons
// that a cell of two simulated hosts can be brought to. Each reason has a project of its own, with the machine m.
func TestRemediesHelp(t *testing.T) {
	const runs = "boot --flavor small --name m --wait --timeout 1m"
	const another = "boot --flavor small --name n --wait --timeout 1m"
	world, fault := fake.NewWorld(), atomic.Pointer[fake.Fault]{} // of the next machines that are prepared
	hosts := cell.SimulatedHosts(2)
	for i := range hosts {
		hosts[i].Driver.Fault = func(c fake.Call) *fake.Fault {
			if c.Method != "Prepare" {
				return nil
			}
			return fault.Load()
		}
	}
	prepareFails := func(class compute.FailureClass) func() {
		return func() { fault.Store(&fake.Fault{Err: &hypervisor.Error{Class: class, Message: "planted"}}) }
	}
	o := cell.EverythingOptions{
		Hosts: hosts, World: world, Listen: "127.0.0.1:0",
		Timing: agent.Timing{BeaconApart: 100 * time.Millisecond}, // hosts say at once what has changed
	}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		t.Setenv(cli.EnvAPI, "http://"+address)
		mustType(t, ctx, "flavor add small --vcpus 1 --memory 1GiB --disk 1GiB")
		mustType(t, ctx, "flavor add huge --vcpus 9000 --memory 1GiB --disk 1GiB")
		for _, c := range []struct {
			code    compute.ReasonCode
			before  func() // nil: nothing
			provoke []string
			befalls func(*fake.Host, compute.InstanceID) error // the machine m, once it runs; nil: nothing
			remedy  []string
			// The exit code of what provokes it, which conductors have to read something else for than requests: the last
			// line of both is typed until they have. 0: there is no such thing.
			reads int
		}{
			{
				code:    compute.QuotaExceeded,
				provoke: []string{"quota set PROJECT --instances 0", "boot --flavor small --name m --wait --timeout 1m"},
				remedy:  []string{"quota set PROJECT --instances 20", another},
				reads:   4,
			},
			{
				code: compute.NoEligibleHost,
				provoke: []string{
					"host disable host-01 --wait", "host disable host-02 --wait", "boot --flavor small --name m",
				},
				remedy: []string{"host enable host-01", "host enable host-02 --wait", another},
			},
			{
				code:    compute.NeverFits,
				provoke: []string{"boot --flavor huge --name m"},
				remedy:  []string{"delete m", another},
			},
			{
				code:    compute.PinnedHostUnavailable,
				provoke: []string{"host disable host-01 --wait", "boot --flavor small --name m --host host-01"},
				remedy:  []string{another, "host enable host-01 --wait"},
			},
			{
				code:    compute.DeadlineExceeded,
				provoke: []string{"boot --flavor huge --name m --deadline 1s"},
				remedy:  []string{another},
			},
			{
				code:    compute.Cancelled,
				provoke: []string{"boot --flavor huge --name m", "delete m --wait"},
				remedy:  []string{another},
			},
			{
				code:    compute.BuildFailed,
				before:  prepareFails(compute.FailureRequest),
				provoke: []string{"boot --flavor small --name m"},
				remedy:  []string{another},
			},
			{
				code:    compute.AttemptsExhausted,
				before:  prepareFails(compute.FailureHost),
				provoke: []string{"boot --flavor small --name m --attempts 1"},
				remedy:  []string{another},
			},
			{
				code: compute.GroupRule,
				provoke: []string{
					"capability add zone a b --requires zone=b:CUSTOM_NOWHERE",
					"flavor add zoned --vcpus 1 --memory 1GiB --disk 1GiB --capability zone --timeout 4m",
					"group create shop --spread zone --max-skew 1",
					"boot --flavor zoned --group shop --with zone=b --name lags",
					"boot --flavor zoned --group shop --with zone=a --name first --wait --timeout 4m",
					"boot --flavor zoned --group shop --with zone=a --name m --key m",
				},
				remedy: []string{
					"capability remove zone b --drain",
					"boot --flavor zoned --group shop --with zone=a --name m --key m --wait --timeout 4m", // the same boot
				},
			},
			{
				code:    compute.StoppedByCommand,
				provoke: []string{runs, "stop m --wait"},
				remedy:  []string{"start m --wait"},
			},
			{
				code:    compute.GuestShutdown,
				provoke: []string{runs},
				befalls: (*fake.Host).PowerOff,
				remedy:  []string{"start m --wait"},
			},
			{
				code:    compute.MachineKilled,
				provoke: []string{runs},
				befalls: (*fake.Host).Kill,
				remedy:  []string{"start m --wait"},
			},
			{
				code:    compute.DiskError,
				provoke: []string{runs},
				befalls: (*fake.Host).Pause,
				remedy:  []string{"start m --wait"},
			},
		} {
			t.Run(string(c.code), func(t *testing.T) {
				project := strings.ToLower(string(c.code))
				t.Setenv(cli.EnvProject, project)
				if c.before != nil {
					c.before()
				}
				typeAll := func(lines []string, code int) {
					t.Helper()
					for n, line := range lines {
						line = strings.ReplaceAll(line, "PROJECT", project)
						if c.reads != 0 && n == len(lines)-1 {
							typeUntil(t, ctx, line, code)
							continue
						}
						mustType(t, ctx, line)
					}
				}
				typeAll(c.provoke, c.reads)
				if c.befalls != nil {
					befall(t, ctx, world, c.befalls)
				}
				awaitReason(t, ctx, c.code)
				fault.Store(nil)
				typeAll(c.remedy, 0)
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

// typeUntil types a line again and again until it ends with an exit code.
func typeUntil(t *testing.T, ctx context.Context, line string, want int) {
	t.Helper()
	for lost := time.Now().Add(soonEnough); ; {
		code, out, errs := typed(ctx, strings.Fields(line))
		if code == want {
			return
		}
		if time.Now().After(lost) {
			t.Fatalf("berth %s: exit code %d, and never %d: %s%s", line, code, want, out, errs)
		}
	}
}

// listed is the machine m.
func listed(t *testing.T, ctx context.Context) (all []client.Instance, text string) {
	t.Helper()
	_, text, errs := typed(ctx, []string{"list", "--all", "--name", "m", "-o", "json"})
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v: %s%s", err, text, errs)
	}
	return all, text
}

// befall has something happen to the machine m on its host.
func befall(t *testing.T, ctx context.Context, world *fake.World, what func(*fake.Host, compute.InstanceID) error) {
	t.Helper()
	all, text := listed(t, ctx)
	for _, h := range world.Hosts() {
		if len(all) == 1 && h.ID() == all[0].Host {
			if err := what(h, all[0].ID); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no host has it: %s", text)
}

// awaitReason waits until the machine m shows the code.
func awaitReason(t *testing.T, ctx context.Context, want compute.ReasonCode) {
	t.Helper()
	shown := ""
	for lost := time.Now().Add(soonEnough); time.Now().Before(lost); {
		var all []client.Instance
		all, shown = listed(t, ctx)
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

// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

func TestBenchSweep(t *testing.T) {
	args := []string{"sweep", "--vary", "hosts=2,3", "--repeat", "2", "--count", "20", "--rate", "200", "--warmup", "2"}
	out, said, code := benches(t, lab.Berth{}, append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	var s struct { // the keys are promised to scripts, and to docs/graphs
		Vary string `json:"vary"`
		Runs []struct {
			Value  float64      `json:"value"`
			Result bench.Result `json:"result"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range s.Runs {
		got = append(got, fmt.Sprintf("%v: %d hosts, %d active", r.Value, r.Result.Hosts, r.Result.Active))
	}
	want := []string{"2: 2 hosts, 20 active", "3: 3 hosts, 20 active", "2: 2 hosts, 20 active", "3: 3 hosts, 20 active"}
	if diff := cmp.Diff(want, got); diff != "" || s.Vary != "hosts" {
		t.Errorf("varied %s (-want +got)\n%s", s.Vary, diff)
	}
	for _, title := range []string{"hosts 2, 1 of 2:\n", "hosts 3, 2 of 2:\n"} {
		if !strings.Contains(said, title) {
			t.Errorf("said %q, want %q in it", said, title)
		}
	}
}

// The row of a value in which something was lost says so, and so does the exit code.
func TestBenchSweepFindsWhatIsWrong(t *testing.T) {
	p := &planted{
		fault: func(*planted, hypervisor.Driver, launch) error { return nil },
		specs: map[compute.InstanceID]hypervisor.Spec{},
	}
	out, said, code := benches(
		t,
		p,
		"sweep",
		"--vary",
		"prepare-time=0s,1ms",
		"--hosts",
		"2",
		"--count",
		"20",
		"--rate",
		"200",
		"--warmup",
		"0",
		"--floor",
	)
	if code != 1 || !strings.Contains(said, "prepare-time 0: bench: 1 lost, 0 doubled") {
		t.Errorf("exit %d: %s", code, said)
	}
	_, table, _ := strings.Cut(out, "PREPARE-TIME")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 3 {
		t.Fatalf("printed\n%s", out)
	}
	// The columns before the floor's two.
	for i, want := range []string{"LOST DOUBLED FLOOR P50 P99", "0s 1 1 0", "1ms 1 0 0"} {
		cells := strings.Fields(lines[i])
		got := strings.Join(cells[len(cells)-5:], " ")
		if i > 0 {
			got = strings.Join([]string{cells[0], cells[1], cells[14], cells[15]}, " ")
		}
		if got != want {
			t.Errorf("line %d says %q, want %q:\n%s", i, got, want, out)
		}
	}
}

// A sweep that is ended early has what was measured until then.
func TestBenchSweepInterrupted(t *testing.T) {
	sweep, err := bench.ParseSweep("slots=1,2,3", 1)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	cmd.Flags().String("output", "table", "")
	var out strings.Builder
	cmd.SetOut(&out)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd.SetContext(ctx)
	o := bench.Options{
		Data:  t.TempDir(),
		Hosts: 2,
		Count: 10,
		Rate:  200,
		Say:   interrupting{"slots 3:", cancel},
	}.WithDefaults()
	err = runSweep(cmd, sweep, o, lab.Berth{})
	if err == nil || !strings.Contains(err.Error(), "was interrupted") {
		t.Errorf("said %v, want that it was interrupted", err)
	}
	_, table, _ := strings.Cut(out.String(), "SLOTS")
	if n := strings.Count(table, "\n"); n != 3 {
		t.Errorf("%d lines of a head and two values that were measured:\n%s", n, out.String())
	}
}

func TestBenchSweepRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "give a name and its values",
		"--vary hosts=2,x":               `hosts "x" is not valid; give whole numbers`,
		"--vary wishes=2":                `vary "wishes" is not valid; give one of hosts,`,
		"--vary hosts=2,2":               "it is there twice",
		"--vary hosts=2,3 --hosts 4":     `hosts "4" is not valid; leave it out`,
		"--vary hosts=2,3 --repeat 0":    "repeat",
		"--vary hosts=2,3 --queues 0":    "queues",
		"--vary hosts=2,0":               `hosts "0" is not valid; give a number`,
		"--vary hosts=2,3 --ramp":        "unknown flag",
		"--vary hosts=2,3 --profile dir": "unknown flag",
	} {
		_, said, code := benches(t, lab.Berth{}, append([]string{"sweep"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(said, want) {
			t.Errorf("%s: exit %d, said %q, want %q in it", args, code, said, want)
		}
	}
}

// A value of --vary does what the flag of that name does.
func TestBenchSweepVariesWhatTheFlagsSay(t *testing.T) {
	for _, name := range bench.Sweepable() {
		value := "1"
		if strings.HasSuffix(name, "-time") {
			value = "1ms"
		}
		var said bench.Options
		var set []string
		var level string
		cmd := &cobra.Command{}
		brokerFlags(cmd, &said, &set, &level)
		loadFlags(cmd, &said)
		said = bench.Options{}
		if err := cmd.Flags().Set(name, value); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sweep, err := bench.ParseSweep(name+"="+value, 1)
		if err != nil {
			t.Fatal(err)
		}
		varied := sweep.Options(bench.Options{})
		if diff := cmp.Diff([]bench.Options{said}, varied, cmpopts.IgnoreFields(bench.Options{}, "Title")); diff != "" {
			t.Errorf("%s (-flag +vary)\n%s", name, diff)
		}
	}
}

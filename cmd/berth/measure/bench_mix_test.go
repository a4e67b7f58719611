// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// The same load twice, once with hosts that save room: all that came is accounted for, and the keys are as promised.
func TestBenchMix(t *testing.T) {
	t.Parallel()
	args := []string{
		"mix", "--hosts", "3", "--host-size", "8", "--sizes", "1,4", "--life", "300ms", "--for", "4s",
		"--save-after", "0s,100ms", "--save-for", "1s", "--grouped", "0.3", "--group-of", "2",
		"--projects", "2", "-o", "json",
	}
	var found mixes
	var out string
	for range 3 { // a machine that stands still for as long as is measured measures nothing
		var said string
		var code int
		if out, said, code = benches(t, lab.Berth{}, args...); code != 0 {
			t.Fatalf("exit %d: %s", code, said)
		}
		found = mixes{}
		if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Runs) != 2 {
			t.Fatalf("%v in %s", err, out)
		}
		if !slices.ContainsFunc(found.Runs, func(r bench.MixResult) bool {
			return r.All.Boots == 0 && r.Error+r.Refused+r.Lost+r.Doubled == 0
		}) {
			break
		}
	}
	for _, r := range found.Runs {
		if r.Boots == 0 || r.All.Boots == 0 || r.All.Boots > r.Boots || r.Error+r.Refused+r.Lost+r.Doubled > 0 {
			t.Errorf("%d boots, %d of them measured; %d error, %d refused", r.Boots, r.All.Boots, r.Error, r.Refused)
		}
		// For nine tenths of the time hosts are as full as P10, or fuller. The mean may be below it all the same.
		if r.Fill.Mean <= 0 || r.Fill.Mean > 1 || r.Fill.P10 > 1 || 0.9*r.Fill.P10 > r.Fill.Mean+0.001 {
			t.Errorf("fill %+v", r.Fill)
		}
		if len(r.Sizes) != 2 || r.Sizes[0].Boots+r.Sizes[1].Boots != r.All.Boots || r.Members == nil {
			t.Errorf("rows %+v", r.Rows)
		}
	}
	first, second := found.Runs[0], found.Runs[1]
	if first.Boots != second.Boots || first.Load.SaveAfterS != 0 || second.Load.SaveAfterS != 0.1 {
		t.Errorf("%+v and %+v are not the same load", first.Load, second.Load)
	}
	if s := first.Savings; s.Hosts > 0 || s.Taken+s.InVain+s.Other > 0 {
		t.Errorf("hosts saved although none should: %+v", s)
	}
	theShapeIs(t, out, "bench_mix.json")
	var table strings.Builder
	if err := printMixes(&table, found); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"4 processors, high", "members of groups", "none saves room",
		"one in 10 saves room after 0.1s, for 1s", "0 lost, 0 doubled",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in:\n%s", want, table.String())
		}
	}
}

// One that says it runs, and was never launched, is lost.
func TestBenchMixFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := &planted{
		fault: func(*planted, hypervisor.Driver, launch) error { return nil },
		specs: map[compute.InstanceID]hypervisor.Spec{},
	}
	out, said, code := benches(t, p, "mix", "--hosts", "3", "--life", "300ms", "--for", "4s", "--warmup-lives", "0")
	if code != 1 || !strings.Contains(said, "1 lost, 0 doubled") || !strings.Contains(out, "1 lost, 0 doubled") {
		t.Errorf("exit %d: %s\n%s", code, said, out)
	}
}

// theShapeIs compares the keys of a result, and what kind of thing each holds, with a golden file.
func theShapeIs(t *testing.T, out, file string) {
	t.Helper()
	var got any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if m := got.(map[string]any); m["runs"] != nil {
		got = m["runs"].([]any)[0]
	}
	shape, err := json.MarshalIndent(shapeOf(got), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(golden, append(shape, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(shape)); diff != "" {
		t.Errorf("the shape changed (-want +got):\n%s", diff)
	}
}

func TestBenchMixRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{"--sizes", "1,32", "sizes"},
		{"--priorities", "urgent=0.1", "give high and low"},
		{"--priorities", "high=much", "give a share"},
		{"--save-after", "0s,-1s", "save-after"},
		{"--save-for", "0s", "save-for"},
		{"--save-share", "0", "save-share"},
		{"--group-of", "20", "group-of"},
		{"--conductors", "9", "conductors"},
	} {
		_, said, code := benches(t, nobody{}, append([]string{"mix"}, c[:len(c)-1]...)...)
		if want := c[len(c)-1]; code == 0 || !strings.Contains(said, want) {
			t.Errorf("%v: exit %d, %s", c, code, said)
		}
	}
}

// nobody is a product that may not be asked for anything.
type nobody struct{ lab.Product }

// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/sim"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// played plays a schedule in a bubble of its own. A bubble in which nothing can
// ever happen again, or that is left with something in it, is an error.
func played(t *testing.T, s schedule.Schedule) (rec *judge.Recording, err error) {
	dir, err := os.MkdirTemp(memory(), fmt.Sprintf("berth-sim-%d-", s.Seed)) // a crash leaves its name behind
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in memory, or in the system's own temporary folder
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("seed %d: %v", s.Seed, p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		log := zap.NewNop()
		if os.Getenv("BERTH_TEST_LOG") != "" {
			log = zaptest.NewLogger(t)
		}
		rec, err = sim.Play(lab.Berth{}, s, sim.Options{Dir: dir, Log: log})
	})
	return rec, err
}

// memory is a folder that no disk is behind, where there is one.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// judged plays a schedule and answers what was wrong, and the story of it.
func judged(t *testing.T, s schedule.Schedule, stats *judge.Stats) (wrong []string, story string) {
	rec, err := played(t, s)
	if err != nil {
		return []string{err.Error()}, err.Error()
	}
	found := rec.Judge()
	stats.Add(rec, len(found) > 0)
	for _, v := range found {
		wrong = append(wrong, v.String())
	}
	return wrong, rec.Story(found)
}

// plays is how often at most a schedule that failed is played to make it smaller.
const plays = 150

// shrunk is the smallest schedule that still fails, with its story. What comes
// of a schedule is not the same every time, so each is tried a few times.
func shrunk(t *testing.T, s schedule.Schedule) (schedule.Schedule, string) {
	left, story := plays, ""
	small := schedule.Shrink(s, func(s schedule.Schedule) bool {
		for range 3 {
			if left--; left < 0 {
				return false
			}
			if wrong, told := judged(t, s, judge.NewStats()); len(wrong) > 0 {
				story = told
				return true
			}
		}
		return false
	})
	return small, story
}

// tell says all about a schedule that failed, and writes the smallest that does
// to a file which belongs in pkg/lab/sim/testdata once the fault is found.
func tell(t *testing.T, s schedule.Schedule, wrong []string, story string) {
	t.Errorf("seed %d: %d things wrong, the first: %s", s.Seed, len(wrong), wrong[0])
	if os.Getenv("SIM_SHRINK") != "0" {
		small, shorter := shrunk(t, s)
		if shorter != "" {
			s, story = small, shorter
		}
	}
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("berth-sim-%d.json", s.Seed))
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Error(err)
	}
	t.Logf("the schedule is in %s; SIM_FILE=%s plays it again\n%s", file, file, story)
}

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// simulate plays the schedules of seeds, as many at once as there are processors.
func simulate(t *testing.T, seeds []uint64) *judge.Stats {
	alone(t)
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	stats, again := judge.NewStats(), setting(t, "SIM_COUNT", 1)
	next := make(chan uint64, len(seeds)*int(again))
	for _, seed := range seeds {
		for range again {
			next <- seed
		}
	}
	close(next)
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprintf("worker-%d", i+1), func(t *testing.T) {
				t.Parallel()
				for seed := range next {
					if t.Failed() && os.Getenv("SIM_STOP") != "" {
						return
					}
					t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
						s := schedule.Generate(seed)
						if wrong, story := judged(t, s, stats); len(wrong) > 0 {
							tell(t, s, wrong, story)
						} else if os.Getenv("SIM_STORY") != "" {
							t.Log("\n" + story)
						}
					})
				}
			})
		}
	})
	fmt.Print(stats)
	return stats
}

// TestSimulation plays schedules that are always the same: a change is judged by what it
// changes. Schedules that nobody ever played before are for make sim.
func TestSimulation(t *testing.T) {
	n := 300
	switch {
	case raced:
		n = 8
	case testing.Short():
		n = 60
	}
	var seeds []uint64
	for i := range n {
		seeds = append(seeds, uint64(i)+1)
	}
	if absent := simulate(t, seeds).Absent(); len(absent) > 0 {
		t.Errorf("planned again and again, and never took place: %v", absent)
	}
}

// TestManySchedules is for `make sim`: as many as asked for.
func TestManySchedules(t *testing.T) {
	n := setting(t, "SIM_N", 0)
	if n == 0 {
		t.Skip("needs SIM_N: how many")
	}
	first := setting(t, "SIM_SEED", rand.Uint64N(1<<40))
	fmt.Printf("seeds from %d on, as many at once as there are processors\n", first)
	only := strings.FieldsFunc(os.Getenv("SIM_ONLY"), func(c rune) bool { return c == ',' })
	var seeds []uint64
	for seed := first; uint64(len(seeds)) < n; seed++ {
		if s := schedule.Generate(seed); !slices.ContainsFunc(only, func(sort string) bool { return !s.Has(sort) }) {
			seeds = append(seeds, seed)
		}
	}
	simulate(t, seeds)
}

// TestScheduleFiles plays what once failed, and one of your own with SIM_FILE.
func TestScheduleFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if own := os.Getenv("SIM_FILE"); own != "" {
		files = []string{own}
	}
	alone(t)
	count := uint64(3)
	if raced || testing.Short() { // test-all plays them three times besides, without the race detector
		count = 1
	}
	stats := judge.NewStats()
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			if !raced { // which has one processor here
				t.Parallel()
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var s schedule.Schedule
			if err := json.Unmarshal(b, &s); err != nil {
				t.Fatal(err)
			}
			for range setting(t, "SIM_COUNT", count) {
				wrong, story := judged(t, s, stats)
				if len(wrong) > 0 {
					t.Fatalf("%d things wrong, the first: %s\n%s", len(wrong), wrong[0], story)
				}
				if os.Getenv("SIM_STORY") != "" {
					t.Log("\n" + story)
				}
			}
		})
	}
}

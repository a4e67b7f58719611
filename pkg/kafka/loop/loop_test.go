// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/service"
)

var _ service.Part = (*Loop)(nil)

func TestLoopAppliesEachInputOnce(t *testing.T) {
	eachCell(t, 3, func(t *testing.T, cfg kafka.Config) {
		a := loop(
			t, cfg, Options{TurnRecords: 7, SessionTimeout: longSession, StopTimeout: longStop}, newLedger(t, "a"),
		)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k0", "k1", "k2", "report3", "report4", "report5")
		f.more(50, 3)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has all", func() bool { return len(instances.recs) >= 300 })
		instances.exact(f.n)
		if diff := cmp.Diff(f.n, a.state()); diff != "" {
			t.Error(diff)
		}
		a.stop(t)
		for p := range int32(3) {
			if at, cursor := committedOf(t, cfg, p); at != [inputTopics]int64{50, 50} || cursor < 100 {
				t.Errorf("partition %d: committed %v, cursor %d", p, at, cursor)
			}
		}
	})
}

// Processes come, stop and are killed, and still every input is applied once.
func TestLoopExactlyOnceThroughDeaths(t *testing.T) {
	const partitions, rounds = 4, 6
	eachCell(t, partitions, func(t *testing.T, cfg kafka.Config) {
		var keys []string
		for i := range 4 * partitions {
			keys = append(keys, fmt.Sprintf("%s%d", []string{"k", "report"}[i/partitions%2], i))
		}
		f := feeding(t, cfg, keys...)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		bell := make(chan struct{}, 1)
		// kfake never forgets a member that dies while it joins; Kafka does, so
		// there the victim dies in the middle of a rebalance.
		calm := strings.HasSuffix(t.Name(), "embedded")
		start := func(name int) *running {
			l := newLedger(t, fmt.Sprint(name))
			l.bell = bell
			o := Options{TurnRecords: 20, StopTimeout: 500 * time.Millisecond}
			if calm {
				o.SessionTimeout = 5 * time.Second // one that ends on a busy machine begins a rebalance as well
			}
			return loop(t, cfg, o, l)
		}
		all := []*running{start(0), start(1)}
		for round := range rounds {
			f.more(40, partitions)
			some := len(instances.recs) + 13*(round+1)
			instances.until("moves on", func() bool { return len(instances.recs) >= some })
			if calm {
				owners(t, bell, partitions, all...)
			} else {
				all = append(all, start(round+2))
			}
			victim := all[0]
			if round%2 == 0 {
				victim.kill(t)
			} else {
				victim.stop(t)
			}
			if all = all[1:]; calm {
				all = append(all, start(round+2))
			}
		}
		total := 40 * rounds * len(keys)
		instances.until("has all", func() bool { return len(instances.recs) >= total })
		instances.sync()
		instances.exact(f.n)
		for ctx := brokertest.Patient(t); ; { // a session may end between the questions
			owners(t, bell, partitions, all...)
			got := map[string]int{}
			for _, r := range all {
				maps.Copy(got, r.state())
			}
			diff := cmp.Diff(f.n, got)
			if diff == "" {
				break
			}
			if pace.Sleep(ctx, 50*time.Millisecond) != nil {
				t.Fatalf("what the owners believe is not what the log says: %s", diff)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMetricsOfALoop(t *testing.T) {
	eachCell(t, 3, func(t *testing.T, cfg kafka.Config) {
		counted, reg := brokertest.Counting(cfg)
		l := newLedger(t, "a")
		l.effects = effectsOf(cfg)
		// A turn that takes longer than ParkAfter is not counted as written.
		o := Options{TurnRecords: 7, SessionTimeout: longSession, ParkAfter: time.Minute, TurnTimeout: 2 * time.Minute}
		a := loop(t, counted, o, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		brokertest.Becomes(t, reg, 3, "berth_loop_partitions", "state", "ready")
		feeding(t, cfg, "k0", "k1", "k2", "report3", "report4", "report5").more(5, 3)
		openLog(t, cfg, cfg.Topics.Instances()).has(30)
		brokertest.Becomes(t, reg, 30, "berth_loop_effects_total", "result", "ok")
		brokertest.Becomes(t, reg, 0, "berth_loop_lag_records")
		brokertest.Becomes(t, reg, 0, "berth_loop_unsent_effects")
		telemetrytest.Is(t, reg, 3, "berth_loop_restore_duration_seconds")
		if sum := telemetrytest.Sum(t, reg, "berth_loop_turn_records"); sum != 30 {
			t.Errorf("%v inputs decided", sum)
		}
		turns, _ := telemetrytest.Value(t, reg, "berth_loop_turn_duration_seconds")
		commits, _ := telemetrytest.Value(t, reg, "berth_loop_commit_duration_seconds")
		if commits < 5 || turns < commits { // 7 inputs at a time
			t.Errorf("%v turns, %v of them written", turns, commits)
		}
		failed, _ := telemetrytest.Value(t, reg, "berth_kafka_request_errors_total") // a slow broker makes some
		a.stop(t)
		if _, shown := telemetrytest.Value(t, reg, "berth_loop_partitions"); shown {
			t.Error("a loop that has ended still shows partitions")
		}
		brokertest.Becomes(t, reg, 0, "berth_kafka_connections")
		telemetrytest.Is(t, reg, failed, "berth_kafka_request_errors_total")
		telemetrytest.Is(t, reg, 0, "berth_loop_undone_turns_total")
	})
}

// has reads until there are so many records.
func (l *log) has(n int) {
	l.t.Helper()
	l.until("has all", func() bool { return len(l.recs) >= n })
}

// What is in the log and not decided is seen while the handler is busy.
func TestMetricsOfALoopThatIsBehind(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		counted, reg := brokertest.Counting(cfg)
		l, busy, free := newLedger(t, "a"), make(chan struct{}, 1000), make(chan struct{})
		l.onTurn = func(in wire.Turn, _ *wire.Result) {
			if len(in.Records) > 0 {
				busy <- struct{}{}
				<-free
			}
		}
		a := loop(t, counted, Options{TurnRecords: 10, TurnTimeout: time.Minute, SessionTimeout: time.Minute}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k0")
		f.more(100, 1)
		brokertest.Await(t, busy, "a turn is under way")
		if behind, _ := telemetrytest.Value(t, reg, "berth_loop_lag_records"); behind < 1 {
			t.Errorf("%v behind in the middle of a turn", behind)
		}
		close(free)
		brokertest.SumBecomes(t, reg, 100, "berth_loop_turn_records")
		brokertest.Becomes(t, reg, 0, "berth_loop_lag_records")
	})
}

func TestMetricsOfUndoneTurns(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		counted, reg := brokertest.Counting(cfg)
		l := newLedger(t, "a")
		l.onTurn = func(_ wire.Turn, res *wire.Result) {
			for i := range res.Changes {
				if l.gained(0) == 1 {
					res.Changes[i].Value = make([]byte, 3<<20) // no broker takes it
				}
			}
		}
		a := loop(t, counted, Options{SessionTimeout: longSession}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		feeding(t, cfg, "k0").more(1, 1)
		openLog(t, cfg, cfg.Topics.Instances()).has(1)
		brokertest.Becomes(t, reg, 1, "berth_loop_undone_turns_total")
		brokertest.Becomes(t, reg, 2, "berth_loop_restore_duration_seconds")
	})
}

func (l *ledger) gained(p int32) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gains[p]
}

func BenchmarkMetricsOfATurn(b *testing.B) {
	for name, m := range map[string]*loopMetrics{"on": newMetrics(prometheus.NewRegistry()), "off": nil} {
		b.Run(name, func(b *testing.B) {
			began := time.Now()
			for b.Loop() {
				m.turned(began, 10)
				m.committed(began)
			}
		})
	}
}

// What lies in the log and was not read yet counts, whatever a fetch brings.
func TestInputsKnowWhatIsNotRead(t *testing.T) {
	in := newInputs(nil, [inputTopics]*fetch.Source{{}, {}}, nil, 100)
	in.add(0, position{at: [inputTopics]int64{5, 0}})
	put := func(topic int, from, next, end int64) {
		t.Helper()
		part := fetch.Part{From: from, Next: next, End: end, Bytes: 1, Records: make([]wire.Record, next-from)}
		if err := in.put(topic, part); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		do   func()
		want int64
	}{
		{func() { put(requests, 5, 8, 20) }, 12},
		{func() { put(reports, 0, 1, 4) }, 15},
		{func() { put(requests, 8, 20, 25) }, 8},
		{func() { put(reports, 1, 4, 4) }, 5},
		{func() { put(requests, 8, 20, 25) }, 5}, // an answer that comes too late
		{func() { in.remove(0) }, 0},
	} {
		if step.do(); in.unread != step.want {
			t.Errorf("step %d: %d are not read, want %d", i, in.unread, step.want)
		}
	}
}

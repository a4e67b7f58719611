// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// A report that was in the log when a timer came due is heard before the timer
// fires, however far behind the loop is.
func TestTimerWaitsForWhatWasInTheLog(t *testing.T) {
	eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "a")
		var due time.Time
		var heard, fired bool
		entered, proceed := make(chan struct{}), make(chan struct{})
		first := true
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if first && len(in.Records) > 0 { // far behind: this turn takes until the timer is due
				first = false
				close(entered)
				<-proceed
			}
			for _, rec := range in.Records {
				heard = heard || string(rec.Value) == "started"
			}
			if at, ok := in.TimersUntil[0]; ok && !due.IsZero() && !at.Before(due) && !fired {
				fired = true
				if !heard {
					t.Error("the timer fired before the report that was in the log")
				}
				l.say("fired")
			}
			if !fired {
				res.Wake = due
			}
		}
		a := loop(t, cfg, Options{TurnRecords: 10, SessionTimeout: longSession}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k")
		f.more(1, 1)
		brokertest.Await(t, entered, "the first turn began")
		f.more(300, 1)
		brokertest.Put(t, cfg, cfg.Topics.Reports(), 0, words(200)...)
		brokertest.Put(t, cfg, cfg.Topics.Reports(), 0, "started")
		due = time.Now()
		close(proceed)
		a.await(t, "fired")
		a.stop(t)
	})
}

func words(n int) []string {
	w := make([]string, n)
	for i := range w {
		w[i] = fmt.Sprint("w", i)
	}
	return w
}

// Nothing to read is no reason to wait: neither in an empty log, nor behind
// records that no reader sees, nor where all was removed by age.
func TestTimerFiresWhereThereIsNothingToRead(t *testing.T) {
	eachCell(t, 4, func(t *testing.T, cfg kafka.Config) {
		brokertest.Transact(
			t, cfg, cfg.Topics.Requests(), kgo.TryAbort, "never", "ever", "more", "of these", "in", "any",
			"partition",
		)
		brokertest.Put(t, cfg, cfg.Topics.Reports(), 0, "old", "older")
		brokertest.RemoveBelow(t, cfg, cfg.Topics.Reports(), 2)
		l := newLedger(t, "a")
		soon := time.Now()
		l.onReady = func(int32, time.Time) *time.Time { return &soon }
		waits := map[int32]bool{0: true, 1: true, 2: true, 3: true}
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			for p := range in.TimersUntil {
				delete(waits, p)
			}
			if len(waits) > 0 {
				res.Wake = soon
			} else {
				l.say("all fired")
			}
		}
		a := loop(t, cfg, Options{}, l)
		a.await(t, "all fired")
		a.stop(t)
	})
}

// The ends are asked for no more often than allowed.
func TestTimerQuestionsAreSpaced(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "a")
		l.onReady = func(_ int32, now time.Time) *time.Time { return &now }
		var at []time.Time
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if until, ok := in.TimersUntil[0]; ok {
				at = append(at, until)
				if len(at) == 5 {
					l.say("five")
				}
			}
			res.Wake = in.Now // for ever due
		}
		a := loop(t, cfg, Options{TimerGap: 40 * time.Millisecond, SessionTimeout: longSession}, l)
		a.await(t, "five")
		a.stop(t)
		for i := range slices.Backward(at[1:]) {
			if gap := at[i+1].Sub(at[i]); gap < 40*time.Millisecond {
				t.Errorf("asked again after %v", gap)
			}
		}
	})
}

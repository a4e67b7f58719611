// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// loop runs boots through a closed loop in virtual time. Boot i is answered at
// once and becomes active after takes(i); zero: never. It answers when each was
// due, in milliseconds from the start; -1: it was not sent.
func loop(ctx context.Context, n, inFlight int, takes func(i int) time.Duration) (due []int, boots []*boot, err error) {
	l := newLedger()
	due = slices.Repeat([]int{-1}, n)
	for i := range n {
		boots = append(boots, &boot{name: string(rune('a' + i))})
	}
	l.enter(boots)
	start := time.Now()
	err = closed{
		ledger:   l,
		boots:    boots,
		inFlight: inFlight,
		stall:    time.Minute,
	}.run(
		ctx,
		n,
		func(i int, at time.Time) {
			due[i] = int(at.Sub(start).Milliseconds())
			l.answered(boots[i], time.Now(), nil)
			if d := takes(i); d > 0 {
				time.Sleep(d)
				l.observe(time.Now(), []observation{{name: boots[i].name, state: compute.StateActive}})
			}
		},
	)
	return due, boots, err
}

func TestTheNextBootIsDueWhenOneBecameActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due, _, err := loop(
			t.Context(),
			6,
			2,
			func(i int) time.Duration { return time.Duration(10*(i+1)) * time.Millisecond },
		)
		// 0 and 1 at once; they take 10 and 20 ms, 2 takes 30, 3 takes 40.
		if want := []int{0, 0, 10, 20, 40, 60}; err != nil || !slices.Equal(due, want) {
			t.Errorf("due at %v, %v; want %v", due, err, want)
		}
	})
}

// A boot that never settles keeps its place, and the others go on in theirs; when all
// places are taken for good, the rest is not sent, and that is no loss of theirs.
func TestALoopInWhichNothingMovesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		due, boots, err := loop(t.Context(), 5, 2, func(i int) time.Duration {
			return []time.Duration{0, time.Second, time.Second, 0, time.Second}[i]
		})
		if want := []int{0, 0, 1000, 2000, -1}; err != nil || !slices.Equal(due, want) {
			t.Errorf("due at %v, %v; want %v", due, err, want)
		}
		if took := time.Since(start); took != 62*time.Second {
			t.Errorf("ended after %s, want a minute after the last news", took)
		}
		if boots[4].refused == nil || !boots[4].settled() || boots[0].settled() {
			t.Errorf("the one not sent: %v, the one that hangs has settled: %v", boots[4].refused, boots[0].settled())
		}
	})
}

func TestALoopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		due, _, err := loop(ctx, 4, 1, func(int) time.Duration { return time.Second })
		if want := []int{0, 1000, -1, -1}; err != context.DeadlineExceeded || !slices.Equal(due, want) {
			t.Errorf("due at %v, %v; want %v and the end of the context", due, err, want)
		}
	})
}

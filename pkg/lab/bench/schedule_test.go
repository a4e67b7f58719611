// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sent is when a boot was due, and when it was really sent.
type sent struct{ i, due, at int } // milliseconds from the start

// record runs a schedule in virtual time; each send takes that long.
func record(ctx context.Context, s schedule, n int, takes time.Duration) ([]sent, error) {
	var mu sync.Mutex
	var all []sent
	start := time.Now()
	err := s.run(ctx, n, func(i int, due time.Time) {
		mu.Lock()
		all = append(all, sent{i, int(due.Sub(start).Milliseconds()), int(time.Since(start).Milliseconds())})
		mu.Unlock()
		time.Sleep(takes)
	})
	slices.SortFunc(all, func(a, b sent) int { return a.i - b.i })
	return all, err
}

func TestBootsAreSentWhenTheyAreDueWhateverBecomesOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got, err := record(t.Context(), schedule{rate: 100, burst: 1}, 4, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		want := []sent{{0, 0, 0}, {1, 10, 10}, {2, 20, 20}, {3, 30, 30}}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if took := time.Since(began); took != time.Hour+30*time.Millisecond {
			t.Errorf("answered after %s: before all calls did", took)
		}
	})
}

func TestBurstsKeepTheMeanRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := record(t.Context(), schedule{rate: 100, burst: 3}, 7, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := []sent{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 30, 30}, {4, 30, 30}, {5, 30, 30}, {6, 60, 60}}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestNothingIsSentAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		got, err := record(ctx, schedule{rate: 100, burst: 1}, 1000, 0)
		if err != context.DeadlineExceeded || len(got) != 3 {
			t.Errorf("%d sent, %v; want 3 and the end of the context", len(got), err)
		}
	})
}

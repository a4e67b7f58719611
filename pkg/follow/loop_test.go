// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// far are the brokers as a test wants them: each question is answered by the
// next of its answers, the last again and again.
type far struct {
	leaders []any // Leaders or error
	oldest  []int64
	fetches []any // Part, byFrom, error, hang or aside
	asked   []int32
	when    []time.Time // they were asked, in the bubble's time
	closed  int
}

// byFrom are the answers to questions from these offsets on.
type byFrom map[int64]Part

// hang is no answer until the asker gives up.
type hang struct{}

// aside is an answer that says nothing about what was asked.
type aside struct{}

func next[T any](list *[]T) T {
	v := (*list)[0]
	if len(*list) > 1 {
		*list = (*list)[1:]
	}
	return v
}

func (f *far) Leaders(context.Context, string) (Leaders, error) {
	switch v := next(&f.leaders).(type) {
	case Leaders:
		return v, nil
	case error:
		return Leaders{}, v
	}
	panic("no answer")
}

func (f *far) Oldest(_ context.Context, _ int32, _ string, partitions []int32) (map[int32]int64, error) {
	return map[int32]int64{partitions[0]: next(&f.oldest)}, nil
}

func (f *far) Fetch(
	ctx context.Context, broker int32, _ string, from map[int32]int64, room Room,
) ([]Part, error) {
	f.asked, f.when = append(f.asked, broker), append(f.when, time.Now())
	answer := next(&f.fetches)
	if logs, ok := answer.(byFrom); ok {
		answer = logs[from[0]]
	}
	switch v := answer.(type) {
	case Part:
		if v.Code == 0 && v.Stable <= from[0] {
			select { // a broker holds what brings no news
			case <-time.After(room.Wait):
			case <-ctx.Done():
			}
		}
		return []Part{v}, nil
	case error:
		return nil, v
	case aside:
		return nil, nil
	case hang:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	panic("no answer")
}

func (f *far) Close() error { f.closed++; return nil }

func led(id byte, broker int32) Leaders {
	return Leaders{ID: [16]byte{id}, Of: map[int32]int32{0: broker}}
}

// version is one of an instance whose id is always the same.
func version(p compute.Project, v compute.Version, offset int64) wire.Record {
	rec := wire.EncodeInstance(compute.Instance{
		ID: "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a", Project: p, Version: v, State: compute.StateQueued,
		Attempt: 1,
	})
	rec.Offset = offset
	return rec
}

// holds is an answer with one version of an instance at each offset.
func holds(first int64, versions ...compute.Version) Part {
	p := Part{}
	for i, v := range versions {
		rec := version("p", v, first+int64(i))
		p.Spans = append(p.Spans, Span{First: rec.Offset, Last: rec.Offset, Records: []wire.Record{rec}})
	}
	p.Highest = first + int64(len(versions))
	p.Stable = p.Highest
	return p
}

// takenOver is such an answer with a takeover at an offset behind.
func takenOver(p Part, offset int64) Part {
	rec := wire.Takeover("conductor")
	rec.Offset = offset
	p.Spans = append(p.Spans, Span{First: offset, Last: offset, Records: []wire.Record{rec}})
	p.Highest, p.Stable = offset+1, offset+1
	return p
}

// run follows these brokers until the versions are known or the follower ends.
func run(t *testing.T, f *far, until compute.Version) (seen []compute.Version, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		fw, made := New(f, Options{Handle: func(b Batch) {
			for _, c := range b.Changes {
				if c.Removed() {
					continue
				}
				seen = append(seen, c.Instance.Version)
				if c.Instance.Version == until {
					stop()
				}
			}
		}})
		if made != nil {
			t.Fatal(made)
		}
		err = fw.Run(ctx)
		if f.closed != 1 {
			t.Errorf("closed %d times", f.closed)
		}
	})
	return seen, err
}

func TestWhatEndsAFollower(t *testing.T) {
	const moved = 6
	for name, v := range map[string]struct {
		far  *far
		kind compute.Kind
		seen int
	}{
		"another topic of that name": {
			&far{
				leaders: []any{led(1, 1), led(2, 1)}, oldest: []int64{0},
				fetches: []any{holds(0, 1), Part{Code: moved}},
			},
			compute.KindConflict, 1,
		},
		"records that were lost": {
			&far{
				leaders: []any{led(1, 1)}, oldest: []int64{0},
				fetches: []any{holds(0, 1, 2), Part{Code: offsetOutOfRange}},
			},
			compute.KindConflict, 2,
		},
		"a version that falls": {
			&far{leaders: []any{led(1, 1)}, oldest: []int64{0}, fetches: []any{holds(0, 7), holds(1, 3)}},
			compute.KindConflict, 1,
		},
		"a version said twice": {
			&far{leaders: []any{led(1, 1)}, oldest: []int64{0}, fetches: []any{holds(0, 7), holds(1, 7)}},
			compute.KindConflict, 1,
		},
		"another log that has grown beyond": {
			&far{
				leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
				fetches: []any{holds(0, 1, 2), Part{Code: 6}, holds(1, 5, 6, 7)},
			},
			compute.KindConflict, 2,
		},
		"another log behind the last change": {
			&far{
				leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
				fetches: []any{takenOver(holds(0, 1, 2), 2), Part{Code: 6}, holds(1, 2, 6, 7)},
			},
			compute.KindConflict, 2,
		},
		"another log that is shorter at first": {
			&far{
				leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
				fetches: []any{
					holds(0, 1, 2), Part{Code: 6}, Part{Code: offsetOutOfRange},
					byFrom{1: holds(1, 5, 6), 2: holds(2, 6, 7)},
				},
			},
			compute.KindConflict, 2,
		},
		"another log that ends at the last change at first": {
			&far{
				leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
				fetches: []any{
					holds(0, 1, 2), Part{Code: 6}, Part{Highest: 1, Stable: 1},
					byFrom{1: holds(1, 5, 6), 2: holds(2, 6, 7)},
				},
			},
			compute.KindConflict, 2,
		},
		"another log that seems to end at the last change for long": {
			&far{
				leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
				fetches: append(append([]any{holds(0, 1, 2), Part{Code: 6}},
					slices.Repeat([]any{Part{Highest: 1, Stable: 1}}, 300)...), // of some minutes
					byFrom{1: holds(1, 5, 6), 2: holds(2, 6, 7)}),
			},
			compute.KindConflict, 2,
		},
		"another log that ends at the last change for good": {
			&far{
				leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
				fetches: []any{
					holds(0, 1, 2), Part{Code: 6},
					byFrom{1: Part{Highest: 1, Stable: 1}, 2: Part{Code: offsetOutOfRange}},
				},
			},
			compute.KindConflict, 2,
		},
		"no leave to read": {
			&far{leaders: []any{led(1, 1)}, oldest: []int64{0}, fetches: []any{Part{Code: topicAuthorization}}},
			compute.KindForbidden, 0,
		},
		"no leave to look": {
			&far{leaders: []any{Forbidden(nil)}, oldest: []int64{0}, fetches: []any{hang{}}},
			compute.KindForbidden, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := run(t, v.far, 99)
			if compute.KindOf(err) != v.kind || len(seen) != v.seen {
				t.Errorf("%v, having seen %v", err, seen)
			}
		})
	}
}

func TestWhatAFollowerSurvives(t *testing.T) {
	const moved = 6
	for name, f := range map[string]*far{
		"no topic yet": {
			leaders: []any{wire.ErrNoTopic, wire.ErrNoTopic, led(1, 1)}, oldest: []int64{0},
			fetches: []any{holds(0, 9)},
		},
		"nobody answers": {
			leaders: []any{errors.New("refused"), led(1, 1)}, oldest: []int64{0},
			fetches: []any{errors.New("cut"), errors.New("cut"), holds(0, 9)},
		},
		"nobody leads yet": {
			leaders: []any{led(1, -1), led(1, -1), led(1, 1)}, oldest: []int64{0}, fetches: []any{holds(0, 9)},
		},
		"another leads": {
			leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
			fetches: []any{holds(0, 1), Part{Code: moved}, holds(1, 9)},
		},
		"another leads, with the same log": {
			leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
			fetches: []any{takenOver(holds(0, 1, 2), 2), Part{Code: 6}, takenOver(holds(1, 2), 2), holds(3, 9)},
		},
		"another leads, and what was read is compacted away": {
			leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
			fetches: []any{holds(0, 1, 2), Part{Code: 6}, holds(2, 3, 9)},
		},
		"another leads, and what was read is removed": {
			leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0, 2},
			fetches: []any{
				holds(0, 1, 2), Part{Code: 6},
				byFrom{1: Part{Code: offsetOutOfRange}, 2: holds(2, 9)},
			},
		},
		"another leads, and does not know yet how far others have it": {
			leaders: []any{led(1, 1), led(1, 2)}, oldest: []int64{0},
			fetches: []any{holds(0, 1, 2), Part{Code: 6}, Part{Highest: 1, Stable: 1}, holds(1, 2, 9)},
		},
		"a leader of before that wakes": {
			leaders: []any{led(1, 1), led(1, 2), led(1, 1), led(1, 1), led(1, 2)}, oldest: []int64{0},
			fetches: []any{
				holds(0, 1), Part{Code: moved}, holds(1, 2), Part{Code: moved},
				Part{Code: offsetOutOfRange}, Part{Code: offsetOutOfRange}, holds(2, 9),
			},
		},
		"a log shortened as it is begun": {
			leaders: []any{led(1, 1)}, oldest: []int64{0, 5},
			fetches: []any{Part{Code: offsetOutOfRange}, holds(5, 9)},
		},
		"a partition that is forgotten": {
			leaders: []any{led(1, 1), Leaders{ID: [16]byte{1}, Of: map[int32]int32{1: 1}}, led(1, 1)},
			oldest:  []int64{0}, fetches: []any{Part{Code: moved}, holds(0, 9)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if seen, err := run(t, f, 9); err != nil || seen[len(seen)-1] != 9 {
				t.Errorf("%v, having seen %v", err, seen)
			}
		})
	}
}

// Another project's instance of the same id has versions of its own, and its
// end does not make the first one forgotten.
func TestOneIDInTwoProjects(t *testing.T) {
	for last, ends := range map[compute.Version]bool{8: false, 7: true} {
		log := holds(0, 7, 3, 4, 5, last)
		for i := int64(1); i <= 3; i++ {
			log.Spans[i].Records[0] = version("other", compute.Version(2+i), i)
		}
		log.Spans[3].Records[0].Value = nil
		seen, err := run(t, &far{leaders: []any{led(1, 1)}, oldest: []int64{0}, fetches: []any{log}}, 8)
		fine := err == nil && slices.Equal(seen, []compute.Version{7, 3, 4, 8})
		if ends && compute.KindOf(err) != compute.KindConflict || !ends && !fine {
			t.Errorf("version %d after 7: %v, having seen %v", last, err, seen)
		}
	}
}

// A broker that says nothing is left for the one that leads now, long before
// its connection would be given up.
func TestAFrozenBrokerIsLeft(t *testing.T) {
	f := &far{leaders: []any{led(1, 1), led(1, 1), led(1, 2)}, oldest: []int64{0}, fetches: []any{hang{}, holds(0, 9)}}
	if seen, err := run(t, f, 9); err != nil || len(seen) != 1 {
		t.Errorf("%v, having seen %v", err, seen)
	}
	if len(f.asked) < 2 || f.asked[0] != 1 || f.asked[1] != 2 {
		t.Fatalf("asked %v", f.asked)
	}
	if left := f.when[1].Sub(f.when[0]); left >= answerWithin {
		t.Errorf("left after %s", left)
	}
}

// What an answer leaves out is not asked for again before its leader is known:
// a broker that has nothing to say says it at once, again and again.
func TestAPartitionIsLeftOut(t *testing.T) {
	f := &far{leaders: []any{led(1, 1)}, oldest: []int64{0}, fetches: []any{aside{}, holds(0, 9)}}
	if seen, err := run(t, f, 9); err != nil || len(seen) != 1 {
		t.Errorf("%v, having seen %v", err, seen)
	}
	if len(f.when) < 2 || !f.when[1].After(f.when[0]) {
		t.Errorf("asked at %v", f.when)
	}
}

// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

type reachable struct{}

func (reachable) Send(context.Context, ...wire.Record) error { return nil }

func (reachable) SendEach(_ context.Context, recs []wire.Record, told func(i int, err error)) {
	sentEach(len(recs), nil, told)
}

// A goroutine that an acknowledgement wakes reads how far the sender is, and may not be woken again for long.
func TestAnAcknowledgementIsCountedWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan int)
	var s *sender
	s = newSender(Options{Reporter: reachable{}}, func(acked []said) {
		if len(acked) == 0 { // it took long, and is parked
			return
		}
		_, done := s.progress()
		heard <- done
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	s.say(said{report: &compute.Report{Op: compute.ReportClaim, Instance: id(1)}})
	if done := <-heard; done != 1 {
		t.Errorf("heard of the first report when %d counted as acknowledged", done)
	}
	cancel()
	<-ended
}

// picky takes nothing that is too large, or has no key, as topics that are compacted.
type picky struct{ got chan int }

func (p picky) Send(context.Context, ...wire.Record) error { return nil }

func (p picky) SendEach(_ context.Context, recs []wire.Record, told func(i int, err error)) {
	took := 0
	for i, r := range recs {
		if len(r.Value) > 1000 || r.Key == nil {
			told(i, compute.Invalid("record", "", "send less"))
			continue
		}
		told(i, nil)
		took++
	}
	p.got <- took
}

// cutOff takes nothing until it is back.
type cutOff struct {
	back atomic.Bool
	mu   sync.Mutex
	got  []string
}

func (c *cutOff) Send(context.Context, ...wire.Record) error { return nil }

func (c *cutOff) SendEach(_ context.Context, recs []wire.Record, told func(i int, err error)) {
	for i, r := range recs {
		if !c.back.Load() {
			told(i, compute.Unavailable("the broker", errors.New("cut off")))
			continue
		}
		c.mu.Lock()
		c.got = append(c.got, string(r.Value))
		c.mu.Unlock()
		told(i, nil)
	}
}

// What a machine was to go for may have found a host when the word comes, so it is not said late, whether it waits or
// was tried before. All else is said, and counts.
func TestAWishThatIsTooLateIsNotSaid(t *testing.T) {
	for long, want := range map[time.Duration]string{
		lateBeacon / 2: "beacon claim tried waits", (lateBeacon + lateLook) / 2: "claim tried waits", 2 * lateLook: "claim",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			c := &cutOff{}
			o := Options{Reporter: c, Log: zap.NewNop(), Timing: Timing{Retry: 100 * time.Millisecond}}
			s := newSender(o, func([]said) {})
			wish := func(n int, says string) said {
				return said{
					report: &compute.Report{Op: compute.ReportPreempt, Instance: id(n)},
					rec:    wire.Record{Topic: "reports", Key: []byte("p"), Value: []byte(says)},
				}
			}
			claim := wish(1, "claim")
			claim.report.Op = compute.ReportClaim
			beacon := said{beacon: true, rec: wire.Record{Topic: "hosts", Key: []byte("h"), Value: []byte("beacon")}}
			s.say(claim, beacon, wish(2, "tried"))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.run(ctx)
			}()
			time.Sleep(time.Second)
			s.say(wish(3, "waits"))
			time.Sleep(long - time.Second)
			c.back.Store(true)
			time.Sleep(10 * time.Second)
			cancel()
			<-ended
			slices.Sort(c.got) // beacons go another way
			if got := strings.Join(c.got, " "); got != want {
				t.Errorf("cut off for %s: %q comes, want %q", long, got, want)
			}
			if put, done := s.progress(); put != 4 || done != 4 {
				t.Errorf("cut off for %s: of %d %d are settled", long, put, done)
			}
		})
	}
}

// What can never be sent is left out, and holds up nothing.
func TestHopelessRecordsHoldUpNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := picky{got: make(chan int, 10)}
	s := newSender(Options{Reporter: p, Log: zap.NewNop()}, func([]said) {})
	key := []byte("k")
	s.say(said{rec: wire.Record{Key: key, Value: []byte("first")}})
	s.say(said{rec: wire.Record{Key: key, Value: make([]byte, 2000)}})
	s.say(said{rec: wire.Record{Value: []byte("no key")}})
	s.say(said{rec: wire.Record{Key: key, Value: []byte("last")}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	if n := <-p.got; n != 2 {
		t.Errorf("%d of four records were taken, want 2", n)
	}
	cancel()
	<-ended
	if put, done := s.progress(); put != 4 || done != 4 {
		t.Errorf("%d of %d are settled", done, put)
	}
}

// batches takes all, and tells how many came at once.
type batches struct{ got chan []wire.Record }

func (b batches) Send(context.Context, ...wire.Record) error { return nil }

func (b batches) SendEach(_ context.Context, recs []wire.Record, told func(i int, err error)) {
	b.got <- recs
	sentEach(len(recs), nil, told)
}

// What is on its way at once may arrive in another order: of an instance there is
// one thing at a time.
func TestReportsOfAnInstanceAreSentOneAfterTheOther(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := batches{got: make(chan []wire.Record)}
	s := newSender(Options{Reporter: b, Log: zap.NewNop()}, func([]said) {})
	say := func(i int, version compute.Version, value string) {
		s.say(said{
			report: &compute.Report{Op: compute.ReportChanged, Instance: id(i), Version: version},
			rec:    wire.Record{Value: []byte(value)},
		})
	}
	say(1, 1, "1 stops")
	say(2, 0, "2 stops")
	say(1, 2, "1 runs")
	say(3, 0, "3 stops")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	var got []string
	for n := 0; n < 4; {
		recs := <-b.got
		for _, r := range recs {
			got = append(got, string(r.Value))
		}
		n, got = n+len(recs), append(got, "|")
	}
	if want := []string{"1 stops", "2 stops", "|", "1 runs", "3 stops", "|"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	cancel()
	<-ended
}

// leaders is a topic of which some partitions have no leader: what goes there is not answered until back is closed, and
// then refused once.
type leaders struct {
	mu       sync.Mutex
	away     map[int32]bool
	back     chan struct{}
	log      []string
	requests int
}

func (l *leaders) Send(context.Context, ...wire.Record) error { return nil }

func (l *leaders) SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error)) {
	l.mu.Lock()
	l.requests++
	var late []int
	var now []string
	for i, r := range recs {
		if l.away[r.Partition] {
			late = append(late, i)
			continue
		}
		now = append(now, string(r.Value))
		told(i, nil)
	}
	l.log = append(l.log, strings.Join(now, ", "))
	l.mu.Unlock()
	if len(late) == 0 {
		return
	}
	select {
	case <-l.back:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range late {
		delete(l.away, recs[i].Partition)
		told(i, compute.Unavailable("write record", errors.New("no leader")))
	}
}

// heard is what arrived, request by request, and how often that was asked for.
func (l *leaders) heard() ([]string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.log), func(s string) bool { return s == "" }), l.requests
}

// sends runs a sender in virtual time, to brokers without leaders for some partitions.
func sends(t *testing.T, away []int32, tell func(t *testing.T, s *sender, l *leaders, acked func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &leaders{away: map[int32]bool{}, back: make(chan struct{})}
		for _, p := range away {
			l.away[p] = true
		}
		var acked atomic.Int64
		o := Options{Reporter: l, Log: zap.NewNop(), Timing: Timing{Retry: time.Second}, Partitions: 4}
		s := newSender(o, func(list []said) { acked.Add(int64(len(list))) })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(ctx)
		}()
		tell(t, s, l, func() int { return int(acked.Load()) })
		cancel()
		<-ended
	})
}

func changed(i int, partition int32, version compute.Version, value string) said {
	return said{
		report: &compute.Report{Op: compute.ReportChanged, Instance: id(i), Version: version},
		rec:    wire.Record{Value: []byte(value)}.To("reports", partition),
	}
}

// While a partition has no leader, what goes to others is sent and acknowledged; what waits for all that was said
// before waits on. What goes to that partition arrives in order once it has a leader.
func TestADestinationStandsForItself(t *testing.T) {
	sends(t, []int32{1}, func(t *testing.T, s *sender, l *leaders, acked func() int) {
		s.say(changed(1, 0, 0, "1 stops"), changed(2, 1, 0, "2 stops"), changed(3, 2, 0, "3 stops"))
		pass(time.Minute)
		s.say(changed(2, 1, 1, "2 runs"), changed(1, 0, 1, "1 runs"), changed(4, 1, 0, "4 stops"))
		pass(time.Minute)
		s.say(changed(3, 2, 1, "3 runs"))
		pass(time.Minute)
		got, _ := l.heard()
		if want := []string{"1 stops, 3 stops", "1 runs", "3 runs"}; !slices.Equal(got, want) {
			t.Errorf("without a leader of one partition %q arrived, want %q", got, want)
		}
		if put, done := s.progress(); put != 7 || done != 1 || acked() != 4 {
			t.Errorf("%d of %d count as settled, %d as acknowledged; want 1 of 7, and 4", done, put, acked())
		}
		if !s.told(7) {
			t.Error("what is late holds up whoever waits for all that was said")
		}
		close(l.back)
		pass(time.Minute)
		got, _ = l.heard()
		if want := []string{"2 stops", "2 runs, 4 stops"}; !slices.Equal(got[3:], want) {
			t.Errorf("then %q arrived, want %q", got[3:], want)
		}
		if put, done := s.progress(); done != put || acked() != put {
			t.Errorf("%d of %d are settled, %d acknowledged", done, put, acked())
		}
	})
}

// What is said at once goes in one request, to however many destinations.
func TestWhatIsSaidAtOnceIsOneRequest(t *testing.T) {
	sends(t, nil, func(t *testing.T, s *sender, l *leaders, acked func() int) {
		s.say(changed(1, 0, 0, "1"), changed(2, 1, 0, "2"), changed(3, 2, 0, "3"), changed(4, 0, 0, "4"))
		pass(time.Second)
		if got, n := l.heard(); n != 1 || acked() != 4 {
			t.Errorf("%q in %d requests, %d acknowledged", got, n, acked())
		}
	})
}

// A destination that is late has one request under way, however much is said to it.
func TestALateDestinationHasOneRequest(t *testing.T) {
	sends(t, []int32{1}, func(t *testing.T, s *sender, l *leaders, _ func() int) {
		for i := range 100 {
			s.say(changed(i, 1, 0, "late"))
			synctest.Wait()
		}
		if _, n := l.heard(); n != 1 {
			t.Errorf("%d requests to a partition that does not answer", n)
		}
	})
}

// The last of what is said about an instance arrives last, however often the same was said before.
func TestWhatIsSaidAgainComesBehindWhatWasSaidBetween(t *testing.T) {
	for name, again := range map[string]func(value string) said{
		"changed": func(value string) said { return changed(1, 1, 0, value) },
		"started": func(value string) said {
			x := changed(1, 1, 0, value)
			x.report.Op = compute.ReportStarted
			return x
		},
	} {
		t.Run(name, func(t *testing.T) {
			sends(t, []int32{1}, func(t *testing.T, s *sender, l *leaders, _ func() int) {
				s.say(changed(9, 1, 0, "first")) // keeps the rest waiting
				pass(time.Second)
				s.say(again("1 stopped"), changed(2, 1, 0, "2 stopped"), changed(1, 1, 7, "1 runs by command"))
				s.say(again("1 stopped again"), changed(2, 1, 0, "2 stopped again"))
				if len(s.waiting) != 3 {
					t.Errorf("%d records wait, want one of a kind", len(s.waiting))
				}
				close(l.back)
				pass(time.Minute)
				got, _ := l.heard()
				want := []string{"first", "2 stopped again, 1 runs by command", "1 stopped again"}
				if !slices.Equal(got, want) {
					t.Errorf("%q arrived, want %q", got, want)
				}
				if put, done := s.progress(); put != 4 || done != 4 {
					t.Errorf("%d of %d are settled", done, put)
				}
			})
		})
	}
}

// While the partition of beacons has no leader one beacon waits behind the one under way: the last.
func TestOneBeaconWaits(t *testing.T) {
	sends(t, []int32{1}, func(t *testing.T, s *sender, l *leaders, _ func() int) {
		for _, value := range []string{"under way", "full", "half full", "empty"} {
			s.say(said{beacon: true, rec: wire.Record{Value: []byte(value)}.To("hosts", 1)})
			pass(time.Second)
		}
		close(l.back)
		pass(time.Minute)
		if got, _ := l.heard(); !slices.Equal(got, []string{"under way", "empty"}) {
			t.Errorf("%q arrived", got)
		}
	})
}

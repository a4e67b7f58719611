// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

type reachable struct{}

func (reachable) Send(context.Context, ...wire.Record) error { return nil }

// A goroutine that an acknowledgement wakes reads how far the sender is, and may not be woken again for long.
func TestAnAcknowledgementIsCountedWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan int)
	var s *sender
	s = newSender(Options{Reporter: reachable{}}, func([]said) {
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

func (p picky) Send(_ context.Context, recs ...wire.Record) error {
	for _, r := range recs {
		if len(r.Value) > 1000 || r.Key == nil {
			return compute.Invalid("record", "", "send less")
		}
	}
	p.got <- len(recs)
	return nil
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
	for range 2 {
		if n := <-p.got; n != 1 {
			t.Errorf("%d records at once", n)
		}
	}
	cancel()
	<-ended
	if put, done := s.progress(); put != 4 || done != 4 {
		t.Errorf("%d of %d are settled", done, put)
	}
}

// batches takes all, and tells how many came at once.
type batches struct{ got chan []wire.Record }

func (b batches) Send(_ context.Context, recs ...wire.Record) error {
	b.got <- recs
	return nil
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

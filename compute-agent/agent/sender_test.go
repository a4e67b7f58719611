package agent

import (
	"context"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

type reachable struct{}

func (reachable) Send(context.Context, ...wire.Record) error { return nil }

// Whoever is woken by an acknowledgement looks at how far the sender is, and may
// not be woken again for long.
func TestAnAcknowledgementIsCountedWhenItIsHeard(t *testing.T) {
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

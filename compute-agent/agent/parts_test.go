// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// What becomes of work that came, by what the host knows then; none: it is taken.
func TestVerdict(t *testing.T) {
	const none = wire.Ack(0)
	for name, c := range map[string]struct {
		change func(*arrival)
		first  wire.Ack // at its first delivery
		third  wire.Ack // when no other host seems to want it
	}{
		"fits":      {func(*arrival) {}, none, none},
		"no offers": {func(a *arrival) { a.offers = false }, wire.AckRelease, wire.AckRelease},
		"no room":   {func(a *arrival) { a.fits = false }, wire.AckRelease, wire.AckRelease},
		"no slot":   {func(a *arrival) { a.slots = 0 }, wire.AckRelease, wire.AckRelease},
		"avoids this host": {
			func(a *arrival) { a.build.Avoid = []compute.HostID{"h"} }, wire.AckRelease, wire.AckRelease,
		},
		"failed here":           {func(a *arrival) { a.build.Failed = []compute.HostID{"h"} }, wire.AckRelease, none},
		"its image failed here": {func(a *arrival) { a.mistrusts = true }, wire.AckRelease, none},
		"late":                  {func(a *arrival) { a.late = true }, wire.AckRelease, wire.AckAccept},
	} {
		for delivery, want := range map[int16]wire.Ack{1: c.first, fetch.ThirdDelivery: c.third} {
			a := arrival{host: "h", delivery: delivery, offers: true, fits: true, slots: 1}
			c.change(&a)
			if got, why := a.verdict(); got != want || want != none && why == "" {
				t.Errorf("%s, delivered %d times: %d (%s), want %d", name, delivery, got, why, want)
			}
		}
	}
}

// Only an image that fails again and again is left to others, and only the host that does offers nothing.
func TestStarts(t *testing.T) {
	s, now := newStarts(offer.Guard{}, time.Minute, zap.NewNop()), time.Now()
	for range 3 {
		s.imageFailed("bad", "broken", now)
	}
	if !s.mistrusts("bad", now) || s.mistrusts("good", now) || s.host.Quarantined(now) {
		t.Errorf("after three starts with a bad image: %+v", s)
	}
	for range 3 {
		s.failed("no KVM", now)
	}
	if !s.host.Quarantined(now) {
		t.Error("after three failed starts the host still offers")
	}
	if got := s.mistrusted(now); !slices.Equal(got, []string{"bad"}) {
		t.Errorf("it says that it mistrusts %q", got)
	}
	if s.trust(now); s.host.Quarantined(now) || s.mistrusts("bad", now) || len(s.mistrusted(now)) > 0 {
		t.Error("the operator's word does not end the quarantine")
	}
	if s.failed("no KVM", now); !s.launched() || s.launched() {
		t.Error("a launch does not forget the failures once")
	}
}

// While the hypervisor does not answer, what conductors repeat is kept once, and what an operator wants in its order.
func TestWhatIsRepeatedIsKeptOnce(t *testing.T) {
	var s stream
	hear := func(c compute.Command) { s.keep(heard{Command: c}) }
	for n := range 100_000 {
		hear(compute.Command{Op: compute.CommandConfirm, Instance: id(n % 100), Attempt: 1, Claim: "c"})
		hear(compute.Command{Op: compute.CommandLook})
		if n%50_000 == 0 {
			hear(compute.Command{Op: compute.CommandHost, Desired: &compute.HostDesired{Version: compute.Version(n + 1)}})
		}
	}
	last := s.unread[len(s.unread)-1]
	if most := 1000; len(s.unread) > most || last.Op != compute.CommandLook {
		t.Errorf("%d are kept, the last is %s", len(s.unread), last.Op)
	}
	var wishes []compute.Version
	said := map[compute.InstanceID]bool{}
	for _, h := range s.unread {
		if said[h.Instance] = true; h.Op == compute.CommandHost {
			wishes = append(wishes, h.Desired.Version)
		}
	}
	if !slices.Equal(wishes, []compute.Version{1, 50_001}) || len(said) != 101 {
		t.Errorf("wishes %v, and %d instances", wishes, len(said)-1)
	}
}

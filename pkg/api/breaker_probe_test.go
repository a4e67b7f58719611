// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// A Kafka that has come back and is slow is asked more patiently from probe to
// probe, and as before once it has answered.
func TestTrialsGrowMorePatient(t *testing.T) {
	g, now, here := newBreaker("x", 10), time.Now(), place{}
	probe := func() pass { return pass{at: here, own: g.places[here]} }
	fail := func() {
		trial, err := g.enter(now, here)
		if err != nil {
			t.Fatal(err)
		}
		g.leave(now, trial, unanswered)
		now = now.Add(probeEvery)
	}
	fail() // no probe yet
	for _, want := range []time.Duration{1, 2, 4, 8, 8} {
		if got := g.probeTimeout(probe()); got != want*firstProbeTimeout {
			t.Errorf("%s, want %s", got, want*firstProbeTimeout)
		}
		fail()
	}
	trial, err := g.enter(now, here)
	if err != nil {
		t.Fatal(err)
	}
	g.leave(now, trial, answered)
	if got := g.probeTimeout(probe()); got != firstProbeTimeout {
		t.Errorf("%s after an answer", got)
	}
}

// slow answers, but takes its time.
type slow time.Duration

func (s slow) Sync(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(s)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slow) SyncPartition(ctx context.Context, _ int32) error { return s.Sync(ctx) }

// silenced is a node whose Kafka has answered neither a boot nor, if reads, a
// reader, until now; from now on it is slow.
func silenced(t *testing.T, reads bool, s slow) *node {
	n := newNode(t)
	n.offer()
	n.silence(true)
	n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(504, compute.KindTimeout)
	if reads {
		n.do("GET", path(id1), nil).refused(503, compute.KindUnavailable)
	}
	n.silence(false)
	n.syncs = newSharedSyncs(s, n.config.Partitions)
	time.Sleep(probeEvery)
	return n
}

// A boot that tries is not refused because a reader does, which says nothing
// about Kafka.
func TestBootTriesBesideAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silenced(t, true, slow(time.Second/2))
		done := make(chan answer)
		go func() { done <- n.do("GET", path(id1), nil) }()
		synctest.Wait()
		into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}), 202)
		(<-done).refused(404, compute.KindNotFound)
	})
}

// A boot that tries too briefly does not turn readers away: they would wait for
// long enough.
func TestBriefTrialClosesNoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silenced(t, false, slow(2*firstProbeTimeout))
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(503, compute.KindUnavailable)
		n.do("GET", path(id1), nil).refused(404, compute.KindNotFound)
	})
}

// Probes that hang up early find out that Kafka is back all the same, and so do
// changes of the catalog.
func TestTrialsThatHangUp(t *testing.T) {
	for _, c := range []struct{ method, path string }{{"GET", "/readyz"}, {"DELETE", "/v1/flavors/m1.small"}} {
		synctest.Test(t, func(t *testing.T) {
			n := silenced(t, true, slow(2*firstProbeTimeout))
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), probeEvery)
				n.ask(httptest.NewRequestWithContext(ctx, c.method, c.path, nil))
				cancel()
				time.Sleep(probeEvery)
			}
			if _, silent, _ := n.reads.state(time.Now()); silent != 0 {
				t.Errorf("%s: silent for %s", c.path, silent)
			}
		})
	}
}

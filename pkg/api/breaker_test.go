// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestGateHoldsItsPromises whatever comes and goes: never more inside than may
// be, no more than one probe at a time and in a second while Kafka is silent,
// and open again after the first answer.
func TestGateHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(rt, "most")
		g := newBreaker("publishing", most)
		now := start
		type entered struct {
			pass
			answers int // that had come by then
		}
		var inside []entered
		silent, trials, answers := false, 0, 0 // trials since the last answer
		lastFailed := time.Time{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(rt, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(rt, "enters") {
				in, err := g.enter(now, place{})
				trial := in.probe
				mayTry := !silent || trials == 0 && now.Sub(lastFailed) >= probeEvery
				switch {
				case len(inside) >= most && err == nil, len(inside) < most && mayTry != (err == nil), err == nil &&
					trial != silent:
					rt.Fatalf("%d inside of %d, silent %v, %d trials: trial %v, %v",
						len(inside), most, silent, trials, trial, err)
				case err == nil:
					inside = append(inside, entered{in, answers})
					if trial {
						trials++
					}
				}
				continue
			}
			if len(inside) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(inside)-1).Draw(rt, "who")
			o := rapid.SampledFrom([]outcome{abandoned, answered, unanswered}).Draw(rt, "outcome")
			tried := inside[i].probe && inside[i].answers == answers
			g.leave(now, inside[i].pass, o)
			if tried {
				trials--
			}
			inside = append(inside[:i], inside[i+1:]...)
			switch {
			case o == answered:
				silent, trials = false, 0
				answers++
			case o == unanswered && (tried || !silent):
				silent, lastFailed = true, now
			}
		}
	})
}

// TestSilentKafka: the first caller waits in vain, the next are told at once,
// one a second tries, and the first answer opens the node again.
func TestSilentKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		boot := func() answer { return n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}) }
		n.silence(true)
		began := time.Now()
		p := boot().refused(504, compute.KindTimeout)
		if time.Since(began) != n.config.PublishTimeout || p.Field != "id" ||
			compute.InstanceID(p.Value).Check() != nil {
			t.Errorf("after %s: %+v", time.Since(began), p)
		}
		for range 100 {
			a := boot()
			p := a.refused(503, compute.KindUnavailable)
			if a.header.Get("Retry-After") != "2" || !strings.Contains(p.Detail, "nothing was done") {
				t.Errorf("%+v %v", p, a.header)
			}
		}
		if waited := time.Since(began); waited != n.config.PublishTimeout {
			t.Errorf("waited %s", waited)
		}
		n.do("GET", "/readyz", nil).refused(503, compute.KindUnavailable)
		if a := n.do("GET", "/healthz", nil); a.status != 200 {
			t.Errorf("healthz %d", a.status)
		}
		time.Sleep(probeEvery)
		began = time.Now()
		boot().refused(503, compute.KindUnavailable)
		if took := time.Since(began); took != firstProbeTimeout || len(n.published()) != 0 {
			t.Errorf("a trial took %s", took)
		}
		n.silence(false)
		time.Sleep(probeEvery)
		into[rest.Instance](boot(), 202)
		into[rest.Instance](boot(), 202)
		if a := n.do("GET", "/readyz", nil); a.status != 200 {
			t.Errorf("readyz %d %s", a.status, a.body)
		}
	})
}

// TestReadyAgainWithoutTraffic: a node that nobody sends to any more, because it
// is not ready, finds out by itself that Kafka is back.
func TestReadyAgainWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.silence(true)
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(504, compute.KindTimeout)
		n.do("GET", "/readyz", nil).refused(503, compute.KindUnavailable)
		n.silence(false)
		time.Sleep(probeEvery)
		if a := n.do("GET", "/readyz", nil); a.status != 200 {
			t.Errorf("readyz %d %s", a.status, a.body)
		}
	})
}

// TestCutOffWithoutTraffic: a node to which nobody sends finds out that Kafka does not answer it, also for a load
// balancer that hangs up early; one partition that is silent by itself is no such sign.
func TestCutOffWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		ready := func() int {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return n.ask(httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil)).status
		}
		away := int32(1)
		n.setAway(&away)
		for range 100 {
			if got := ready(); got != 200 {
				t.Fatalf("readyz %d while one partition is silent", got)
			}
			time.Sleep(askAfter)
		}
		n.setAway(nil)
		ready()
		n.silence(true)
		if got := ready(); got != 200 { // Kafka has answered just now
			t.Errorf("readyz %d", got)
		}
		time.Sleep(askAfter)
		began := time.Now()
		if got := ready(); got != 503 || time.Since(began) > firstProbeTimeout+n.config.SyncTimeout {
			t.Errorf("readyz %d after %s", got, time.Since(began))
		}
		began = time.Now()
		if got := ready(); got != 503 || time.Since(began) != 0 {
			t.Errorf("readyz %d after %s, though it is known", got, time.Since(began))
		}
		n.silence(false)
		time.Sleep(probeEvery)
		if got := ready(); got != 200 {
			t.Errorf("readyz %d", got)
		}
	})
}

// silence makes Kafka answer nothing, or answer again.
func (n *node) silence(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute = on
}

// TestTooManyAtOnce: no more than Publishing wait; the others are told to come again.
func TestTooManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.writes.limit = 3
		n.holds()
		answers := make(chan answer, 10)
		for range 10 {
			go func() { answers <- n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}) }()
			synctest.Wait()
		}
		for range 7 {
			(<-answers).tooMany("3")
		}
		close(n.hold)
		for range 3 {
			into[rest.Instance](<-answers, 202)
		}
	})
}

func TestTooManyCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.reads.limit = 2
		hold := make(chan struct{})
		n.sync = func() error { <-hold; return nil }
		answers := make(chan answer, 5)
		for range 5 {
			go func() { answers <- n.do("GET", path(id1), nil) }()
			synctest.Wait()
		}
		for range 3 {
			(<-answers).refused(429, compute.KindUnavailable)
		}
		close(hold)
		for range 2 {
			(<-answers).refused(404, compute.KindNotFound)
		}
	})
}

// TestCallerGoesAway: what was begun for it is finished and shown; it says
// nothing about Kafka.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.holds()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer, 1)
		req := httptest.NewRequestWithContext(ctx, "POST", "/v1/instances",
			strings.NewReader(`{"flavor":"m1.small","id":"`+string(id1)+`"}`))
		req.Header.Set("Content-Type", "application/json")
		go func() { done <- n.ask(req) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if inside, _, _ := n.writes.state(time.Now()); inside != 1 {
			t.Errorf("%d publications are under way", inside)
		}
		close(n.hold)
		<-done
		if n.show(id1).State != "accepted" {
			t.Error("what Kafka took is not shown")
		}

		n.silence(true)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		n.ask(httptest.NewRequestWithContext(gone, "GET", path(id2), nil))
		if _, silent, _ := n.reads.state(time.Now()); silent != 0 {
			t.Error("a caller that went away is no sign of a silent Kafka")
		}
	})
}

// TestCatalogChangesCloseNothing: neither one whose caller goes away, nor one
// that fails because those in front of it take too long.
func TestCatalogChangesCloseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.holds()
		done := make(chan answer)
		change := func(ctx context.Context) {
			req := httptest.NewRequestWithContext(ctx, "PUT", "/v1/quotas/web",
				strings.NewReader(`{"limits":{"VCPU":1}}`))
			req.Header.Set("Content-Type", "application/json")
			done <- n.ask(req)
		}
		open := func(when string) {
			if inside, silent, _ := n.writes.state(time.Now()); inside != 0 || silent != 0 {
				t.Errorf("%s: %d inside, silent for %s", when, inside, silent)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go change(ctx)
		synctest.Wait()
		cancel()
		<-done
		open("its caller went away")
		go change(t.Context())
		go change(t.Context())
		answers := []int{(<-done).status, (<-done).status}
		slices.Sort(answers)
		if want := []int{503, 504}; !slices.Equal(answers, want) { // the one in front may be written
			t.Errorf("answered %v, want %v", answers, want)
		}
		open("it waited for another one")
		close(n.hold)
		into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}), 202)
	})
}

// fragile is a catalog whose changes panic.
type fragile struct{ Catalog }

func (fragile) SetQuota(context.Context, compute.Quota) error { panic("a fault of ours") }

// TestCatalogChangeThatPanics while it is the probe does not keep others from trying.
func TestCatalogChangeThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.silence(true)
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(504, compute.KindTimeout)
		n.silence(false)
		time.Sleep(probeEvery)
		n.config.Catalog = fragile{n.config.Catalog}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it was not the trial")
				}
			}()
			n.do("PUT", "/v1/quotas/web", `{"limits":{"VCPU":1}}`)
		}()
		into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}), 202)
	})
}

// TestCatalogChangeAsTrial: while Kafka is silent it waits no longer than any
// probe, and once it was written Kafka counts as back; one that only looked
// proves nothing.
func TestCatalogChangeAsTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.silence(true)
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(504, compute.KindTimeout)
		time.Sleep(probeEvery)
		began := time.Now()
		n.do("PUT", "/v1/quotas/web", `{"limits":{"VCPU":1}}`).refused(503, compute.KindUnavailable)
		if took := time.Since(began); took != firstProbeTimeout {
			t.Errorf("took %s", took)
		}
		n.silence(false)
		time.Sleep(probeEvery)
		for _, c := range []struct {
			path   string
			silent bool
		}{{"/v1/flavors/m1.small?dry_run=true", true}, {"/v1/flavors/m1.small", false}} {
			into[rest.Change](n.do("DELETE", c.path, nil), 200)
			if _, silent, _ := n.writes.state(time.Now()); (silent != 0) != c.silent {
				t.Errorf("%s: silent for %s", c.path, silent)
			}
		}
	})
}

// TestFullBuffer: what this process has no room for was not asked of Kafka. It
// was not kept, and says nothing about Kafka.
func TestFullBuffer(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.has(instance(id1, "web", compute.StateActive))
	n.fail = &compute.Error{
		Kind: compute.KindUnavailable, Message: "full", Cause: fmt.Errorf("too many: %w", wire.ErrFull),
	}
	for _, a := range []answer{
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}),
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small", ID: id2}),
		n.do("DELETE", path(id1), nil),
	} {
		p := a.refused(429, compute.KindUnavailable)
		if a.header.Get("Retry-After") != "1" || !strings.Contains(p.Remedy, "nothing was done") {
			t.Errorf("%+v %v", p, a.header)
		}
	}
	n.fail = nil
	n.do("GET", path(id2), nil).refused(404, compute.KindNotFound)
	into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}), 202)
}

// TestRetryAfterWhereverItMayHelp and nowhere else.
func TestRetryAfterWhereverItMayHelp(t *testing.T) {
	n := newNode(t)
	for kind := compute.KindInternal; kind <= compute.KindTimeout; kind++ {
		var r *refusal
		if !errors.As(n.refuse(t.Context(), "boot", &compute.Error{Kind: kind, Message: "no"}), &r) {
			t.Fatal(kind)
		}
		after, err := strconv.Atoi(r.header.Get("Retry-After"))
		if want := kind == compute.KindUnavailable || kind == compute.KindTimeout; want != (err == nil && after > 0) {
			t.Errorf("%s: %v", kind, r.header)
		}
	}
}

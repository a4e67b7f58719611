// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

var lookedAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// inLine is an instance that waits, at a place in a line of five.
func inLine(name string, r compute.Reason, place uint64) client.Instance {
	if place > 0 {
		r.Position, r.Depth, r.Oldest = place-1, 5, lookedAt.Add(-14*time.Second)
	}
	return client.Instance{Name: name, State: "queued", Waiting: rest.FromReason(&r)}
}

func TestLook(t *testing.T) {
	full := compute.Reason{Code: compute.NoEligibleHost, Hosts: compute.HostCounts{Full: 3, Draining: 1}}
	capacity := compute.Reason{Code: compute.WaitingForCapacity}
	some := capacity
	some.Hosts = compute.HostCounts{Eligible: 1, Full: 3}
	just := inLine("a", some, 2)
	just.QueuedAt = lookedAt.Add(-time.Second)
	again := inLine("a", full, 1)
	again.Attempt, again.Attempts, again.NextTryAt = 2, 3, lookedAt.Add(4*time.Second)
	again.Reason = rest.FromReason(
		&compute.Reason{Code: compute.BuildFailed, Host: "h1", Attempt: 1, Class: compute.FailureHost},
	)
	for want, got := range map[string]waitStatus{
		"a: queued, waiting: NoEligibleHost 3 full, 1 draining": look(
			[]client.Instance{inLine("a", full, 0)}, 1, lookedAt,
		),
		"a: queued, waiting: NoEligibleHost 3 full, 1 draining, position 2 of 5, oldest 14s": look(
			[]client.Instance{inLine("a", full, 2)}, 1, lookedAt,
		),
		"a: queued, waiting: WaitingForCapacity position 2 of 5, oldest 14s": look(
			[]client.Instance{inLine("a", capacity, 2)}, 1, lookedAt,
		),
		"a: queued, waiting: WaitingForCapacity 1 eligible, 3 full, position 2 of 5, oldest 14s": look(
			[]client.Instance{inLine("a", some, 2)}, 1, lookedAt,
		),
		"a: queued": look([]client.Instance{just}, 1, lookedAt), // a host is about to take it
		"2 queued; waiting: NoEligibleHost 3 full, 1 draining": look([]client.Instance{just,
			inLine("b", full, 0)}, 2, lookedAt),
		"a: queued, waiting: NoEligibleHost no host is known": look(
			[]client.Instance{inLine("a", compute.Reason{Code: compute.NoEligibleHost}, 0)}, 1, lookedAt,
		),
		"a: queued, waiting: NeverFits 2 too small or lacking a trait": look(
			[]client.Instance{
				inLine("a", compute.Reason{Code: compute.NeverFits, Hosts: compute.HostCounts{NeverFits: 2}}, 0),
			}, 1, lookedAt,
		),
		"a: queued, waiting: PinnedHostUnavailable host h1, it is silent": look(
			[]client.Instance{
				inLine("a", compute.Reason{Code: compute.PinnedHostUnavailable, Host: "h1", Detail: "it is silent"}, 0),
			}, 1, lookedAt,
		),
		"a: queued, waiting: WaitingForCapacity host h1": look(
			[]client.Instance{inLine("a", compute.Reason{Code: compute.WaitingForCapacity, Host: "h1"}, 0)}, 1,
			lookedAt,
		),
		"a: queued, waiting: the API does not say why": look(
			[]client.Instance{{Name: "a", State: "queued"}}, 1, lookedAt,
		),
		"a: accepted, waiting: no conductor has read it yet": look(
			[]client.Instance{{Name: "a", State: "accepted"}}, 1, lookedAt,
		),
		"a: starting on h1": look([]client.Instance{{Name: "a", State: "starting", Host: "h1"}}, 1, lookedAt),
		"a: active":         look([]client.Instance{{Name: "a", State: "active", Host: "h1"}}, 1, lookedAt),
		"a: unknown on h1 (host h1 is silent)": look(
			[]client.Instance{{Name: "a", State: "unknown", Host: "h1"}}, 1, lookedAt,
		),
		"a: error (no such flavor)": look(
			[]client.Instance{
				{Name: "a", State: "error", Reason: rest.FromReason(&compute.Reason{Code: compute.NoSuchFlavor})},
			}, 1, lookedAt,
		),
		"3 accepted": look(nil, 3, lookedAt),
		"1 queued, 1 active; waiting: NoEligibleHost 3 full, 1 draining, position 2 of 5, oldest 14s": look(
			[]client.Instance{inLine("a", full, 2), {State: "active"}}, 2, lookedAt,
		),
		"3 queued; waiting: NoEligibleHost 3 full, 1 draining, positions 2 to 4 of 5, oldest 14s": look(
			[]client.Instance{inLine("a", full, 3), inLine("b", full, 2), inLine("c", full, 4)}, 3, lookedAt,
		),
		"2 queued; waiting: 1 × NoEligibleHost 3 full, 1 draining; 1 × WaitingForCapacity host h1": look(
			[]client.Instance{
				inLine("a", full, 0), inLine("b", compute.Reason{Code: compute.WaitingForCapacity, Host: "h1"}, 0),
			}, 2, lookedAt,
		),
		"1 accepted, 1 queued, 1 error (no such flavor); waiting: WaitingForCapacity position 1 of 5, oldest 14s": look(
			[]client.Instance{
				inLine("a", capacity, 1),
				{State: "error", Reason: rest.FromReason(&compute.Reason{Code: compute.NoSuchFlavor})},
			}, 3, lookedAt,
		),
		"a: queued, waiting: NoEligibleHost 3 full, 1 draining, attempt 2/3 is due soon, " +
			"before: attempt 1 failed on h1 (host), position 1 of 5, oldest 14s, next attempt in 4s": look(
			[]client.Instance{again}, 1, lookedAt,
		),
	} {
		if got.line != want {
			t.Errorf("got  %s\nwant %s", got.line, want)
		}
	}
}

// TestLookAlwaysSaysWhy: whatever waits, there is more than that it does; time
// that passes is no news, and everything else that is shown is.
func TestLookAlwaysSaysWhy(t *testing.T) {
	codes := []compute.ReasonCode{
		compute.WaitingForCapacity,
		compute.NoEligibleHost,
		compute.NeverFits,
		compute.PinnedHostUnavailable,
		"Later",
	}
	rapid.Check(t, func(rt *rapid.T) {
		var all []client.Instance
		for range rapid.IntRange(1, 6).Draw(rt, "instances") {
			r := compute.Reason{
				Code:  rapid.SampledFrom(codes).Draw(rt, "code"),
				Hosts: compute.HostCounts{Full: uint32(rapid.IntRange(0, 2).Draw(rt, "full"))},
			}
			all = append(all, inLine("a", r, uint64(rapid.IntRange(0, 5).Draw(rt, "place"))))
		}
		now := look(all, len(all), lookedAt)
		_, reason, found := strings.Cut(now.line, "waiting: ")
		if !found || len(reason) < 4 || strings.Contains(now.line, "\n") {
			rt.Fatalf("%q", now.line)
		}
		later := look(all, len(all), lookedAt.Add(3*time.Second))
		if later.news != now.news || now.news == "" {
			rt.Fatalf("time is no news: %q, then %q", now.news, later.news)
		}
		all[0].Waiting = rest.FromReason(
			&compute.Reason{Code: compute.NoEligibleHost, Hosts: compute.HostCounts{Silent: 9}},
		)
		if look(all, len(all), lookedAt).news == now.news {
			rt.Fatalf("another reason is news: %q", now.news)
		}
	})
}

// TestLineElsewhereIsNewOnlyWithNews: in a file there is a line for each piece
// of news, and not one for each second.
func TestLineElsewhereIsNewOnlyWithNews(t *testing.T) {
	var out bytes.Buffer
	l := newLiveLine(&out)
	for _, s := range []waitStatus{{"a 1s", "a"}, {"a 2s", "a"}, {"b 3s", "b"}, {"b 4s", "b"}} {
		l.show(s)
	}
	l.end()
	if out.String() != "a 1s\nb 3s\n" {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	l = &liveLine{w: &out, terminal: true}
	for _, s := range []waitStatus{{"a 1s", "a"}, {"a 2s", "a"}, {"a 2s", "a"}} {
		l.show(s)
	}
	l.end()
	if out.String() != "\r\x1b[K\x1b[?7la 1s\x1b[?7h\r\x1b[K\x1b[?7la 2s\x1b[?7h\n" {
		t.Errorf("%q", out.String())
	}
}

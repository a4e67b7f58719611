// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// beaconAt is a beacon of h1 as a broker has it that appends it then.
func beaconAt(at time.Time) wire.Record {
	rec := wire.EncodeBeacon(compute.Beacon{Host: "h1", Journal: "j1"})
	rec.Time, rec.Logged = at, true
	return rec
}

// forgottenAt is the tombstone of h1, as it was appended then.
func forgottenAt(at time.Time) wire.Record {
	rec := wire.Tombstone(wire.KeyHost("h1"))
	rec.Time, rec.Logged = at, true
	return rec
}

// startedAt reads a report of h1 as a broker has it that appends it then.
func (k *cell) startedAt(at time.Time) {
	rec := k.report(compute.ReportStarted, 1, "p", "h1")
	rec.Time, rec.Logged = at, true
	k.read(rec)
}

// dead is the word that h1 is dead, as it was appended then.
func (k *cell) dead(op compute.RequestOp, at time.Time) wire.Record {
	rec := k.place(wire.EncodeRequest(compute.Request{Op: op, Host: "h1"}), "requests", wire.Partition("p", partitions))
	rec.Time, rec.Logged = at, true
	return rec
}

// TestALivingHostIsNotFenced: one record is not enough to have the machines of a host that is heard of
// built elsewhere, whichever client writes it.
func TestALivingHostIsNotFenced(t *testing.T) {
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	for name, c := range map[string]struct {
		heard func(k *cell) // what is heard of the host before the word is read
		word  time.Duration // when that was appended
		dies  bool
	}{
		"heard a moment ago": {
			func(k *cell) { k.c.Hosts([]wire.Record{beaconAt(at(0))}, true) }, 29 * time.Second, false,
		},
		"silent": {
			func(k *cell) { k.c.Hosts([]wire.Record{beaconAt(at(0))}, true) }, 30 * time.Second, true,
		},
		"silent, and heard again at that moment": {
			func(k *cell) { k.c.Hosts([]wire.Record{beaconAt(at(0)), beaconAt(at(40 * time.Second))}, true) },
			40 * time.Second, true,
		},
		"heard at that moment, and before": {
			func(k *cell) {
				k.c.Hosts([]wire.Record{beaconAt(at(20 * time.Second)), beaconAt(at(40 * time.Second))}, true)
			},
			40 * time.Second, false,
		},
		"never heard of": {func(k *cell) { k.c.Hosts(nil, true) }, time.Hour, true},
		"hosts cannot be read": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(-time.Hour))}, true)
			k.syncHosts = func() error { return errors.New("no leader") }
		}, time.Hour, false},
		"not read to their end, with its beacon there": {func(k *cell) {
			k.syncHosts = func() error { k.c.Hosts([]wire.Record{beaconAt(at(20 * time.Second))}, true); return nil }
		}, 40 * time.Second, false},
		"not read to their end, and silent": {func(k *cell) {
			k.syncHosts = func() error { k.c.Hosts([]wire.Record{beaconAt(at(0))}, true); return nil }
		}, 40 * time.Second, true},
		"its beacons of an outage are read after a report from behind it": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(0))}, true)
			k.startedAt(at(80 * time.Second))
			k.syncHosts = func() error {
				for d := 15; d <= 75; d += 15 {
					k.c.Hosts([]wire.Record{beaconAt(at(time.Duration(d) * time.Second))}, true)
				}
				return nil
			}
		}, 50 * time.Second, false},
		"heard by the past": {func(k *cell) { k.c.Hosts([]wire.Record{beaconAt(at(-time.Hour))}, true) }, 0, true},
		"a tombstone from before a report that was read first": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(-time.Hour))}, true)
			k.startedAt(at(0))
			k.c.Hosts([]wire.Record{forgottenAt(at(-10 * time.Second))}, true)
		}, 20 * time.Second, false},
		"a tombstone, while it lives": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(0)), forgottenAt(at(10 * time.Second))}, true)
		}, 20 * time.Second, false},
		"a tombstone, as it is silent, and heard again before the word is read": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(0)), forgottenAt(at(40 * time.Second)), beaconAt(at(41 * time.Second))}, true)
		}, 40 * time.Second, true},
		"a tombstone, as it is silent, and the word behind its return": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(0)), forgottenAt(at(40 * time.Second)), beaconAt(at(41 * time.Second))}, true)
		}, 45 * time.Second, false},
		"a tombstone of a host that was never heard of, and a report": {func(k *cell) {
			k.c.Hosts([]wire.Record{forgottenAt(at(10 * time.Second))}, true)
			k.startedAt(at(20 * time.Second))
		}, 25 * time.Second, true},
		"heard by a report": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(0))}, true)
			k.startedAt(at(40 * time.Second))
		}, 50 * time.Second, false},
		"read late, of a host that was silent then and is back": {func(k *cell) {
			k.c.Hosts(
				[]wire.Record{beaconAt(at(0)), beaconAt(at(2 * time.Minute)), beaconAt(at(135 * time.Second))},
				true,
			)
		}, time.Minute, true},
		"read late, of a host that was never silent": {func(k *cell) {
			k.c.Hosts(
				[]wire.Record{beaconAt(at(0)), beaconAt(at(15 * time.Second)), beaconAt(at(30 * time.Second))},
				true,
			)
		}, 20 * time.Second, false},
		"read late, of a host that nothing is known of from then": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(2 * time.Minute))}, true)
		}, time.Minute, false},
	} {
		for _, op := range []compute.RequestOp{compute.OpFence, compute.OpForget} {
			t.Run(fmt.Sprint(name, "/", op), func(t *testing.T) {
				k := newCell(t)
				k.read(k.boot(1, "p"), k.report(compute.ReportClaim, 1, "p", "h1"),
					k.report(compute.ReportStarted, 1, "p", "h1"))
				c.heard(k)
				k.read(k.dead(op, at(c.word)))
				if moved := k.last("p", 1).State != compute.StateActive; moved != c.dies {
					t.Errorf("it has moved: %t, want %t", moved, c.dies)
				}
				if len(k.bad) == 0 != c.dies {
					t.Fatalf("%d rejects", len(k.bad))
				}
				if !c.dies {
					r, err := wire.DecodeRejected(k.bad[0])
					if err != nil || r.Reason.Host != "h1" || !strings.Contains(r.Reason.Detail, "say it again once") {
						t.Errorf("rejected: %+v, %v", r, err)
					}
				}
			})
		}
	}
}

// TestHostsAreReadOncePerTurn: however many requests come at once, and not at all for a while after that failed, unless
// the topic was read since: a turn that waits for it holds up everything else. Of a host that is known to be alive
// nothing more has to be known.
func TestHostsAreReadOncePerTurn(t *testing.T) {
	k, reads := newCell(t), 0
	fails := errors.New("no leader")
	k.syncHosts = func() error { reads++; return fails }
	rejected := func(n, want int, with string) {
		t.Helper()
		reads, k.bad = 0, nil
		k.read(k.dead(compute.OpFence, k.now), k.dead(compute.OpForget, k.now), k.dead(compute.OpFence, k.now))
		if reads != want || len(k.bad) != n {
			t.Errorf("hosts were read %d times, want %d; %d requests were rejected, want %d", reads, want, len(k.bad), n)
		}
		for _, rec := range k.bad {
			if r, err := wire.DecodeRejected(rec); err != nil || !strings.Contains(r.Reason.Detail, with) {
				t.Errorf("rejected: %+v, %v; it should say %q", r, err, with)
			}
		}
	}
	k.unread = time.Minute
	rejected(3, 1, "say it again once the conductor can read that topic")
	k.now = k.now.Add(syncRetryAfter - time.Second)
	rejected(3, 0, "it was tried 14s ago")
	k.now = k.now.Add(time.Second)
	rejected(3, 1, "say it again once the conductor can read that topic")
	k.now, k.unread, fails = k.now.Add(time.Second), 0, nil
	rejected(0, 1, "")
	rejected(0, 1, "")
	k.c.Hosts([]wire.Record{beaconAt(k.now)}, true)
	rejected(3, 0, "say it again once the host has been silent")
}

// TestItIsNotedThatTheCatalogIsUnread: what is not known of it may be there, until it was read to its end.
func TestItIsNotedThatTheCatalogIsUnread(t *testing.T) {
	k := newCell(t)
	for _, deaf := range []time.Duration{5, 6, 0, 7} {
		k.now, k.deaf = k.now.Add(time.Second), deaf*time.Second
		k.read()
		if got, want := k.c.view.CatalogUnread, deaf > 5; got != want {
			t.Errorf("%d s unread: it is noted %t", deaf, got)
		}
	}
	k.c.view.CatalogUnread = false
	k.gainAll()
	if !k.c.view.CatalogUnread {
		t.Error("a partition is taken over, and that the catalog is unread is not noted")
	}
	k.deaf = time.Second
	k.gainAll()
	for seconds, want := range []bool{true, false, false} {
		if got := k.c.turn(k.now.Add(time.Duration(seconds) * time.Second)).viewOf(0).CatalogBehind; got != want {
			t.Errorf("%d s after a takeover: the catalog is behind %t", seconds, got)
		}
		k.now = k.now.Add(time.Second)
	}
}

// TestWhatCouldNotBeWrittenIsAskedAgain: how long a host's stream is, on which depends whether a fence touches what the
// host has.
func TestWhatCouldNotBeWrittenIsAskedAgain(t *testing.T) {
	k := newCell(t)
	k.c.Hosts(nil, true)
	asked := func(res wire.Result) (n int) {
		for _, e := range res.Effects {
			if _, is := e.Tag.(commandTag); is {
				n++
			}
		}
		return n
	}
	p := wire.Partition("p", partitions)
	failed := []wire.Sent{
		{Tag: commandTag{p, "h1"}, Err: errors.New("no leader")}, {Tag: commandTag{99, "h1"}, Err: errors.New("no leader")},
	}
	if n := asked(k.turn(wire.Turn{Sent: failed})); n > 0 {
		t.Errorf("nobody waits for an answer, and it is asked %d times", n)
	}
	k.read(k.boot(1, "p"))
	k.read(k.reported(compute.Report{
		Op: compute.ReportClaim, Host: "h1", Project: "p", Instance: id(1), Attempt: 1, Claim: "c1", Fence: 9000,
	}))
	k.now = k.now.Add(2 * time.Minute)
	word := k.place(wire.EncodeRequest(compute.Request{Op: compute.OpFence, Host: "h1", Fence: 5}), "requests", p)
	word.Time, word.Logged = k.now, true
	if res := k.read(word); asked(res) != 1 {
		t.Fatalf("it is not asked how long the stream is: %+v", res)
	}
	if n := asked(k.turn(wire.Turn{Sent: failed})); n > 0 {
		t.Errorf("it is asked %d times at once", n)
	}
	if n := asked(k.pass(15 * time.Second)); n != 1 {
		t.Errorf("later it is asked %d times", n)
	}
}

// TestItIsNotedThatHostsAreUnread: a fetch of nothing takes some seconds, and is no sign of it.
func TestItIsNotedThatHostsAreUnread(t *testing.T) {
	k := newCell(t)
	for _, step := range []struct {
		unread time.Duration
		noted  time.Duration // when, from the beginning on; 0: never
	}{{15 * time.Second, 0}, {16 * time.Second, 2 * time.Second}, {0, 2 * time.Second}} {
		k.now, k.unread = k.now.Add(time.Second), step.unread
		k.read()
		var want time.Time
		if step.noted > 0 {
			want = epoch.Add(step.noted)
		}
		if !k.c.view.HostsUnreadAt.Equal(want) {
			t.Errorf("%v unread: %v is noted, want %v", step.unread, k.c.view.HostsUnreadAt, want)
		}
	}
}

// TestAnotherJournalWhileHostsAreUnread: the agent that has the machine may speak all the time, and a copy of its host
// says that nothing is there.
func TestAnotherJournalWhileHostsAreUnread(t *testing.T) {
	for _, unread := range []bool{false, true} {
		k := newCell(t)
		say := func(op compute.ReportOp, journal compute.JournalID) wire.Record {
			return k.reported(compute.Report{
				Op: op, Instance: id(1), Project: "p", Host: "h1", Attempt: 1, Claim: "c1", Journal: journal,
			})
		}
		k.c.Hosts([]wire.Record{beaconAt(k.now)}, true)
		k.read(k.boot(1, "p"), say(compute.ReportClaim, "j1"), say(compute.ReportStarted, "j1"))
		for range 3 {
			if k.now = k.now.Add(30 * time.Second); unread {
				k.unread += 30 * time.Second
			}
			k.read()
		}
		k.read(say(compute.ReportGone, "j2"))
		if stays := k.last("p", 1).State == compute.StateActive; stays != unread {
			t.Errorf("hosts unread: %v; it is %v", unread, k.last("p", 1).State)
		}
	}
}

// TestTwinsWhileHostsAreUnread: that nothing was heard of them since does not make one agent of several.
func TestTwinsWhileHostsAreUnread(t *testing.T) {
	for _, unread := range []bool{false, true} {
		k := newCell(t)
		for range 4 {
			for _, journal := range []compute.JournalID{"j1", "j2"} {
				k.c.Hosts([]wire.Record{wire.EncodeBeacon(compute.Beacon{Host: "h1", Journal: journal})}, true)
			}
			k.now = k.now.Add(15 * time.Second)
		}
		k.read()
		if len(k.c.view.Twins["h1"]) != 2 {
			t.Fatalf("%v speak for the host", k.c.view.Twins)
		}
		if k.now = k.now.Add(2 * time.Minute); unread {
			k.unread = 2 * time.Minute
		}
		k.read()
		if is := len(k.c.view.Twins["h1"]); (is == 2) != unread {
			t.Errorf("hosts unread: %v; %d agents speak for it", unread, is)
		}
	}
}

// TestSignsOfLifeComeInAnyOrder: nothing is known of a host from before it was first heard of; what comes later says
// the same in any order.
func TestSignsOfLifeComeInAnyOrder(t *testing.T) {
	const quiet = 30
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct{ first, later []int }{
		"never silent":                   {[]int{0}, []int{15, 30, 45, 60, 75, 90}},
		"silent once":                    {[]int{0}, []int{15, 60, 75, 90}},
		"silent at the end of an outage": {[]int{0, 15}, []int{30, 90}},
	} {
		all := append(slices.Clone(c.first), c.later...)
		for range 100 {
			rand.Shuffle(len(c.later), func(i, j int) { c.later[i], c.later[j] = c.later[j], c.later[i] })
			var h lifeSigns
			for _, s := range append(slices.Clone(c.first), c.later...) {
				h.note(at(s), quiet*time.Second)
			}
			for s := range 150 {
				before := 0
				for _, x := range all {
					if x < s {
						before = max(before, x)
					}
				}
				silent := s-before >= quiet
				if h.alive(at(s), quiet*time.Second) == silent {
					t.Fatalf("%s, heard in the order %v: that it was alive at %d is %t", name, c.later, s, !silent)
				}
			}
		}
	}
}

// TestSilencesAreBounded: the last few are remembered, and each copy keeps its own.
func TestSilencesAreBounded(t *testing.T) {
	var h lifeSigns
	for n := range mostSilences + 3 {
		h.note(epoch.Add(time.Duration(n)*time.Minute), 30*time.Second)
	}
	of := func(n int) bool {
		return h.alive(epoch.Add(time.Duration(n)*time.Minute+45*time.Second), 30*time.Second)
	}
	if !of(1) || of(2) || of(mostSilences+1) {
		t.Errorf("alive in the second minute: %t, the third %t, the last %t", of(1), of(2), of(mostSilences+1))
	}
	before := h
	for s := range 6 {
		before.note(epoch.Add(time.Duration(2*60+10*s)*time.Second), 30*time.Second)
	}
	if of(2) {
		t.Error("what a copy has heard is heard by all")
	}
}

// TestALateWordOfALivingHost: where the log does not say when the word was written, it is not taken for one of the
// moment in which a conductor reads it that was cut off for a minute. Seen to fail before that was so, and by the
// schedule dead_by_a_word_read_late.json.
func TestALateWordOfALivingHost(t *testing.T) {
	for name, c := range map[string]struct {
		last time.Duration // when the host was heard of last
		dies bool
	}{
		"heard just before": {15 * time.Second, false}, "silent when it was said": {-20 * time.Second, true},
	} {
		k := newCell(t)
		k.read(k.boot(1, "p"), k.report(compute.ReportClaim, 1, "p", "h1"), k.report(compute.ReportStarted, 1, "p", "h1"))
		k.c.Hosts([]wire.Record{beaconAt(epoch.Add(c.last))}, true)
		word := k.dead(compute.OpForget, epoch.Add(20*time.Second))
		word.Logged = false
		k.now = epoch.Add(2 * time.Minute)
		k.read(word)
		if moved := k.last("p", 1).State != compute.StateActive; moved != c.dies {
			t.Errorf("%s: it has moved: %t", name, moved)
		}
	}
}

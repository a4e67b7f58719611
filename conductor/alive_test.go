// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"fmt"
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
		"never heard of":     {func(k *cell) { k.c.Hosts(nil, true) }, time.Hour, true},
		"hosts not read yet": {func(*cell) {}, time.Hour, false},
		"heard by the past":  {func(k *cell) { k.c.Hosts([]wire.Record{beaconAt(at(-time.Hour))}, true) }, 0, true},
		"a tombstone, while it lives": {func(k *cell) {
			gone := wire.Tombstone(wire.KeyHost("h1"))
			gone.Time, gone.Logged = at(10*time.Second), true
			k.c.Hosts([]wire.Record{beaconAt(at(0)), gone}, true)
		}, 20 * time.Second, false},
		"heard by a report": {func(k *cell) {
			k.c.Hosts([]wire.Record{beaconAt(at(0))}, true)
			rec := k.report(compute.ReportStarted, 1, "p", "h1")
			rec.Time, rec.Logged = at(40*time.Second), true
			k.read(rec)
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

// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/wire"
)

// guarded is a cell whose conductor checks MACs, and what hosts sign with.
type guarded struct {
	*cell
	master  hostkey.Master
	signers map[compute.HostID]*hostkey.Signer
	trust   hostkey.Trust
}

func newGuarded(t *testing.T, trust hostkey.Trust) *guarded {
	g := &guarded{
		cell: newCellWith(t, NewMetrics(prometheus.NewRegistry())), trust: trust,
		master: hostkey.NewMaster([32]byte{1}), signers: map[compute.HostID]*hostkey.Signer{},
	}
	g.logged = true
	g.takeOver()
	return g
}

// takeOver is another process that has the partitions from now on.
func (g *guarded) takeOver() {
	g.c = g.conductor(nil)
	g.c.cfg.Hosts = hostkey.NewVerifier(g.trust, []hostkey.Master{g.master})
	g.c.Catalog(offers(), true)
	g.c.Queues([]wire.Record{listed("m1.small")}, true)
	g.gainAll()
}

// by signs a record as a host's process does.
func (g *guarded) by(h compute.HostID, rec wire.Record) wire.Record {
	if g.signers[h] == nil {
		g.signers[h] = hostkey.NewSigner(g.master.Derive(h))
	}
	return g.signers[h].Sign(rec)
}

// refused reads a record and wants it rejected as code, or not at all.
func (g *guarded) refused(rec wire.Record, want compute.ReasonCode) {
	g.t.Helper()
	before := len(g.bad)
	g.read(rec)
	var got compute.ReasonCode
	for _, rec := range g.bad[before:] {
		rejected, err := wire.DecodeRejected(rec)
		if err != nil {
			g.t.Fatal(err)
		}
		got = rejected.Reason.Code
	}
	if got != want {
		g.t.Errorf("rejected as %q, want %q", got, want)
	}
}

func (g *guarded) claimed(h compute.HostID) wire.Record {
	return g.report(compute.ReportClaim, 1, "p", h)
}

// TestOnlyTheHostSpeaksForItself: a stranger's claim, however it is made, changes nothing, and
// that is written down and counted.
func TestOnlyTheHostSpeaksForItself(t *testing.T) {
	g := newGuarded(t, hostkey.TrustKeys)
	g.read(g.boot(1, "p"))
	g.refused(g.claimed("h1"), compute.Unsigned)
	g.refused(g.by("h2", g.claimed("h1")), compute.Forged)
	altered := g.by("h1", g.claimed("h1"))
	altered.Value = g.claimed("h2").Value
	g.refused(altered, compute.Forged)
	g.want("p", 1, compute.StateQueued, "")

	claim := g.by("h1", g.claimed("h1"))
	g.refused(claim, "")
	g.want("p", 1, compute.StateStarting, "")
	g.refused(claim, compute.Replayed)
	g.refused(g.by("h1", g.report(compute.ReportStarted, 1, "p", "h1")), "")
	g.want("p", 1, compute.StateActive, "")
	for result, want := range map[string]float64{"signed": 2, "Unsigned": 1, "Forged": 2, "Replayed": 1} {
		if got := testutil.ToFloat64(g.metrics.proved.WithLabelValues("reports", result)); got != want {
			t.Errorf("%s: %v reports, want %v", result, got, want)
		}
	}
}

// TestUnsignedCountWhereAllAreTrusted, but nothing with a wrong MAC does.
func TestUnsignedCountWhereAllAreTrusted(t *testing.T) {
	g := newGuarded(t, hostkey.TrustAll)
	g.read(g.boot(1, "p"))
	g.refused(g.by("h2", g.claimed("h1")), compute.Forged)
	g.want("p", 1, compute.StateQueued, "")
	g.refused(g.claimed("h1"), "")
	g.want("p", 1, compute.StateStarting, "")
}

// TestOldPowerIsNotBelievedAgain: what a host said of a machine before, said again by a stranger,
// does not change what is known of it.
func TestOldPowerIsNotBelievedAgain(t *testing.T) {
	g := newGuarded(t, hostkey.TrustKeys)
	power := func(p compute.PowerState) wire.Record {
		return g.by("h1", g.reported(compute.Report{
			Op: compute.ReportChanged, Host: "h1", Project: "p", Instance: id(1), Attempt: 1, Claim: "c1", Power: p,
		}))
	}
	g.read(g.boot(1, "p"), g.by("h1", g.claimed("h1")), g.by("h1", g.report(compute.ReportStarted, 1, "p", "h1")))
	stopped := power(compute.PowerStopped)
	g.read(stopped, power(compute.PowerRunning))
	g.refused(stopped, compute.Replayed)
	if inst := g.last("p", 1); inst.Power != compute.PowerRunning {
		t.Errorf("it is %s", inst.Power)
	}
}

// TestTheSameLogIsReadAgain: a conductor that gains a partition hears what another heard there, and
// takes nothing of it for a replay.
func TestTheSameLogIsReadAgain(t *testing.T) {
	g := newGuarded(t, hostkey.TrustKeys)
	log := []wire.Record{
		g.boot(1, "p"), g.by("h1", g.claimed("h1")), g.by("h1", g.report(compute.ReportStarted, 1, "p", "h1")),
	}
	g.read(log...)
	again := func(how string) {
		g.read(log...)
		if len(g.bad) > 0 {
			t.Errorf("%s: %d of the same records are rejected", how, len(g.bad))
		}
		g.want("p", 1, compute.StateActive, "")
	}
	g.gainAll()
	again("the same conductor")
	g.takeOver()
	again("another")
}

// TestReplayedToASuccessor: a conductor that has taken over has not heard what was said before. It
// knows by the beacons since, also of a host that is dead: a replay is no sign of life.
func TestReplayedToASuccessor(t *testing.T) {
	g := newGuarded(t, hostkey.TrustKeys)
	say := func() wire.Record {
		return g.place(g.by("h1", beacon("h1", "j1", 1).To(g.c.cfg.Topics.Hosts(), 0)), g.c.cfg.Topics.Hosts(), 0)
	}
	report := func() wire.Record {
		return g.reported(compute.Report{
			Op: compute.ReportStarted, Host: "h1", Journal: "j1", Project: "p", Instance: id(1), Attempt: 1, Claim: "c1",
		})
	}
	g.read(g.boot(1, "p"), g.by("h1", g.claimed("h1")), g.by("h1", report()))
	first := say()
	old := g.by("h1", report())
	late := g.by("h1", report())
	g.now = g.now.Add(time.Minute)
	hosts := []wire.Record{first, say()}
	g.now = g.now.Add(hostkey.Late)
	hosts = append(hosts, say())
	g.takeOver()
	g.c.Hosts(hosts, true)

	late.Time = epoch.Add(hostkey.Late) // it was sent long, or read long after it was written
	g.refused(late, "")
	g.takeOver() // one that has not even heard that
	g.c.Hosts(hosts, true)
	g.now = g.now.Add(2 * hostkey.Late)
	old.Time = g.now
	g.refused(old, compute.Replayed)
	if h := g.c.inbox.lifeOf("h1"); h.alive(g.now, time.Minute) {
		t.Error("a replay is taken for a sign of life")
	}
}

// TestBeaconsAreTheHosts: a stranger's beacon is no sign of life, and no new journal.
func TestBeaconsAreTheHosts(t *testing.T) {
	g := newGuarded(t, hostkey.TrustKeys)
	topic := g.c.cfg.Topics.Hosts()
	say := func(journal compute.JournalID) wire.Record { return g.place(beacon("h1", journal, 1), topic, 0) }
	signed := g.by("h1", say("j1"))
	g.c.Hosts([]wire.Record{signed}, true)
	g.now = g.now.Add(time.Hour)
	again := signed
	again.Time = g.now
	g.c.Hosts([]wire.Record{say("j2"), g.by("h2", say("j2")), again}, true)
	if h := g.c.inbox.lifeOf("h1"); !h.last.Equal(epoch) {
		t.Errorf("it was heard at %s", h.last)
	}
	if got := g.c.inbox.lastBeacons["h1"].journal; got != "j1" {
		t.Errorf("it has journal %s", got)
	}
	// A word that the host is forgotten does not make its past new.
	g.c.Hosts([]wire.Record{g.place(wire.Tombstone(wire.KeyHost("h1")), topic, 0), again}, true)
	if got := g.c.inbox.lastBeacons["h1"].journal; got != "" {
		t.Error("a replay brings it back")
	}
}

// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// published is a cell whose conductor checks who wrote requests, with a machine of project p that runs.
func published(t *testing.T, trust hostkey.Trust) *guarded {
	g := &guarded{
		cell: newCellWith(t, NewMetrics(prometheus.NewRegistry())), master: hostkey.NewMaster([32]byte{1}),
	}
	g.c = g.conductor(nil)
	g.c.cfg.Publishers = publishkey.NewVerifier(trust, []hostkey.Master{g.master})
	g.c.Catalog(offers(), true)
	g.c.Queues([]wire.Record{listed("m1.small")}, true)
	g.gainAll()
	g.refused(g.of("p", g.boot(1, "p")), "")
	g.read(g.report(compute.ReportClaim, 1, "p", "h1"), g.report(compute.ReportStarted, 1, "p", "h1"))
	g.want("p", 1, compute.StateActive, "")
	return g
}

// of signs a request as a publisher for some projects does.
func (g *guarded) of(projects publishkey.Projects, rec wire.Record) wire.Record {
	return publishkey.Derive(g.master, "ci", projects).Sign(rec)
}

// everyRequest is one of each kind: of what runs, of what is new, and about its host.
func (g *guarded) everyRequest() []wire.Record {
	recs := []wire.Record{g.boot(2, "p")}
	for _, op := range []compute.RequestOp{compute.OpDelete, compute.OpStop, compute.OpStart, compute.OpReboot} {
		recs = append(recs, g.requested(compute.Request{Op: op, Project: "p", Instance: id(1), Command: "c", Hard: true}))
	}
	for _, op := range []compute.RequestOp{compute.OpFence, compute.OpForget, compute.OpConfirm} {
		rec := wire.EncodeRequest(compute.Request{Op: op, Host: "h1"})
		recs = append(recs, g.place(rec, g.c.cfg.Topics.Requests(), wire.Partition("p", partitions)))
	}
	return recs
}

// TestOnlyPublishersWithAKeyAreTaken: a request of any kind that a stranger wrote, or a publisher of another project,
// changes nothing and publishes nothing, and that is written down and counted.
func TestOnlyPublishersWithAKeyAreTaken(t *testing.T) {
	g := published(t, hostkey.TrustKeys)
	decided, effects := len(g.log[wire.Partition("p", partitions)]), len(g.sent)
	others := hostkey.NewMaster([32]byte{2})
	as := map[compute.ReasonCode]func(wire.Record) wire.Record{
		compute.Unsigned:       func(rec wire.Record) wire.Record { return rec },
		compute.ForeignProject: func(rec wire.Record) wire.Record { return g.of("q", rec) },
		compute.Forged: func(rec wire.Record) wire.Record {
			rec.Headers = append(rec.Headers, g.of("p", g.boot(3, "p")).Headers...)
			return rec
		},
	}
	for code, sign := range as {
		for _, rec := range g.everyRequest() {
			g.refused(sign(rec), code)
		}
	}
	g.refused(publishkey.Derive(others, "ci", "p").Sign(g.boot(2, "p")), compute.Unsigned)
	if now := len(g.log[wire.Partition("p", partitions)]); now != decided || len(g.sent) != effects {
		t.Errorf("%d changes and %d effects came of it", now-decided, len(g.sent)-effects)
	}
	for result, want := range map[string]float64{"signed": 1, "Unsigned": 9, "Forged": 8, "ForeignProject": 8} {
		if got := testutil.ToFloat64(g.metrics.published.WithLabelValues(result)); got != want {
			t.Errorf("%s: %v requests, want %v", result, got, want)
		}
	}

	g.refused(g.of("o,p", g.boot(2, "p")), "")
	g.want("p", 2, compute.StateQueued, "")
	g.refused(g.of(publishkey.All, g.requested(compute.Request{Op: compute.OpDelete, Project: "p", Instance: id(2)})), "")
	g.want("p", 2, compute.StateDeleted, compute.Cancelled)
	for _, rec := range g.everyRequest()[5:] {
		g.refused(g.of("p", rec), compute.ForeignProject)
	}
	g.refused(g.of(publishkey.All, g.everyRequest()[7]), "")
}

// TestEveryRequestIsTakenWhereAllAreTrusted, and counted by what would be refused.
func TestEveryRequestIsTakenWhereAllAreTrusted(t *testing.T) {
	g := published(t, hostkey.TrustAll)
	g.refused(g.boot(2, "p"), "")
	g.refused(g.of("q", g.boot(3, "p")), "")
	forged := g.boot(4, "p")
	forged.Headers = append(forged.Headers, g.of("p", g.boot(3, "p")).Headers...)
	g.refused(forged, "")
	for n := 2; n <= 4; n++ {
		g.want("p", n, compute.StateQueued, "")
	}
	for result, want := range map[string]float64{"signed": 1, "Unsigned": 1, "Forged": 1, "ForeignProject": 1} {
		if got := testutil.ToFloat64(g.metrics.published.WithLabelValues(result)); got != want {
			t.Errorf("%s: %v requests, want %v", result, got, want)
		}
	}
}

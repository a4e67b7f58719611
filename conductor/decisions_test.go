// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// BenchmarkDecisions is a conductor alone: records in, decided, records out. An op is a
// machine's whole life in five of them: boot, claim, started, delete, deleted.
func BenchmarkDecisions(b *testing.B) { decisions(b, nil, nil) }

// BenchmarkDecisionsSigned is the same where it checks the MACs of the three that hosts say.
func BenchmarkDecisionsSigned(b *testing.B) {
	master := hostkey.NewMaster([32]byte{1})
	decisions(b, &master, nil)
}

// BenchmarkDecisionsPublished is the same where it checks the MACs of the two that are requests.
func BenchmarkDecisionsPublished(b *testing.B) {
	master := hostkey.NewMaster([32]byte{1})
	decisions(b, nil, &master)
}

func decisions(b *testing.B, hosts, publishers *hostkey.Master) {
	const together = 500 // records of one turn, as a loop hands them over under load
	k := newCell(b)
	// None that has ended is forgotten meanwhile, which would be one more change.
	cfg := Config{Partitions: partitions, MaxEnded: b.N, Now: k.own}
	sign := func(rec wire.Record) wire.Record { return rec }
	if hosts != nil {
		cfg.Hosts = hostkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{*hosts})
		sign = hostkey.NewSigner(hosts.Derive("h1")).Sign
	}
	publish := func(rec wire.Record) wire.Record { return rec }
	if publishers != nil {
		cfg.Publishers = publishkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{*publishers})
		publish = publishkey.Derive(*publishers, "api", publishkey.All).Sign
	}
	k.c = New(cfg, k.c.deps)
	k.c.Catalog(offers(), true)
	k.c.Queues([]wire.Record{listed("m1.small")}, true)
	k.gainAll()
	lives := 0
	steps := []func(n int) wire.Record{
		func(n int) wire.Record { return publish(k.boot(n, "rich")) },
		func(n int) wire.Record { return sign(k.report(compute.ReportClaim, n, "rich", "h1")) },
		func(n int) wire.Record { return sign(k.report(compute.ReportStarted, n, "rich", "h1")) },
		func(n int) wire.Record {
			return publish(k.requested(compute.Request{Op: compute.OpDelete, Project: "rich", Instance: id(n)}))
		},
		func(n int) wire.Record { return sign(k.report(compute.ReportGone, n, "rich", "h1")) },
	}
	b.ReportAllocs()
	b.ResetTimer()
	for lives < b.N {
		n := min(together, b.N-lives)
		for i, step := range steps {
			b.StopTimer()
			recs := make([]wire.Record, n)
			for j := range recs {
				recs[j] = step(lives + j)
			}
			b.StartTimer()
			res := k.c.Turn(wire.Turn{Records: recs, Now: k.now})
			if res.Committed != nil {
				for p := range int32(partitions) {
					res.Committed(p)
				}
			}
			if len(res.Changes) != n || len(res.Rejects) > 0 {
				b.Fatalf("step %d changed %d of %d, %d rejected", i, len(res.Changes), n, len(res.Rejects))
			}
		}
		lives += n
	}
	b.ReportMetric(float64(lives*len(steps))/b.Elapsed().Seconds(), "decisions/s")
}

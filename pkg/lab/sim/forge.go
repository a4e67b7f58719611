// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// keys are those of the hosts of a world that has any, and what was signed with them.
type keys struct {
	master hostkey.Master

	mu     sync.Mutex
	check  *hostkey.Verifier
	heard  map[int32]*hostkey.Heard // by partition of the reports
	signed []wire.Record            // every report that its host has signed
}

// newKeys are the keys of a world; nil: it has none.
func newKeys(s schedule.Schedule) *keys {
	if !s.World.Keys {
		return nil
	}
	secret := [32]byte{1}
	binary.BigEndian.PutUint64(secret[1:], s.Seed)
	k := &keys{master: hostkey.NewMaster(secret), heard: map[int32]*hostkey.Heard{}}
	k.check = k.verifier()
	return k
}

// verifier is what conductors and queue managers go by; nil: they believe all.
func (k *keys) verifier() *hostkey.Verifier {
	if k == nil {
		return nil
	}
	return hostkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{k.master})
}

// of is a host's key; nil: it has none.
func (k *keys) of(h compute.HostID) *hostkey.Key {
	if k == nil {
		return nil
	}
	key := k.master.Derive(h)
	return &key
}

// genuine says whether a report is its host's, and no replay. It is asked once for each record, in
// the order of the log.
func (k *keys) genuine(rec wire.Record) bool {
	if k == nil {
		return true
	}
	r, err := wire.DecodeReport(rec)
	if err != nil {
		return true // the judge says that
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	proved, reason := k.check.Check(rec, r.Host)
	if k.heard[rec.Partition] == nil {
		k.heard[rec.Partition] = &hostkey.Heard{}
	}
	if reason == nil {
		reason = k.heard[rec.Partition].Observe(r.Host, r.Voice(), proved, time.Time{})
	}
	if reason == nil {
		k.signed = append(k.signed, rec)
	}
	return reason == nil
}

// forgeEvery is how long a stranger leaves between two records.
const forgeEvery = 100 * time.Millisecond

// forge writes reports that are no host's until the fault ends.
func (w *play) forge(f schedule.Fault) {
	w.lasts(f.For, nil)
	came := false
	end, r := time.Now().Add(f.For.Duration()), rand.New(rand.NewPCG(w.Seed, 32))
	for n := 0; time.Now().Before(end) && w.sleep(forgeEvery); n++ {
		rec, ok := w.keys.replayed(r)
		if n%2 == 0 || !ok {
			rec, ok = w.forged(r)
		}
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(w.ours.Life, time.Second)
		if err := w.clients.producer.Send(ctx, rec); err == nil && !came {
			came = true
			w.rec.CountFault(f)
		}
		cancel()
	}
}

// replayed is what a host has said before, as it said it.
func (k *keys) replayed(r *rand.Rand) (wire.Record, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.signed) == 0 {
		return wire.Record{}, false
	}
	return k.signed[r.IntN(len(k.signed))], true
}

// forged is what might do most harm: the end of a machine that runs, or another host's claim.
func (w *play) forged(r *rand.Rand) (wire.Record, bool) {
	all := w.rec.Instances()
	ids := slices.Sorted(maps.Keys(all))
	if len(ids) == 0 {
		return wire.Record{}, false
	}
	inst, hosts := all[ids[r.IntN(len(ids))]], w.World.Hosts
	x := compute.Report{
		Host: inst.Host, Project: inst.Project, Instance: inst.ID, Attempt: max(inst.Attempt, 1), Claim: inst.Claim,
		Journal: inst.Journal, At: time.Now(), Power: compute.PowerStopped, Class: compute.FailureHost,
		Op: []compute.ReportOp{
			compute.ReportGone, compute.ReportFailed, compute.ReportReturned, compute.ReportStarted, compute.ReportChanged,
		}[r.IntN(5)],
	}
	if x.Host == "" || r.IntN(4) == 0 {
		x.Op, x.Host, x.Claim = compute.ReportClaim, hosts[r.IntN(len(hosts))].ID, "forged"
	}
	if x.Check() != nil {
		return wire.Record{}, false
	}
	rec := wire.EncodeReport(x).To(wire.Topics{Prefix: prefix}.Reports(), wire.Partition(x.Project, w.World.Partitions))
	switch other, ok := w.keys.replayed(r); {
	case r.IntN(3) == 0: // unsigned
	case ok && r.IntN(2) == 0:
		rec.Headers = other.Headers
	default:
		rec = hostkey.NewSigner(w.keys.master.Derive(x.Host + "-x")).Sign(rec)
	}
	return rec, true
}

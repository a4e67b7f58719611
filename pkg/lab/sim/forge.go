// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// keys are those of the hosts and publishers of a world that has any, and what hosts have signed with them.
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

// publishers is what conductors take requests by; nil: they take all.
func (k *keys) publishers() *publishkey.Verifier {
	if k == nil {
		return nil
	}
	return publishkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{k.master})
}

// node is the key of API nodes; nil: they have none.
func (k *keys) node() *publishkey.Key {
	if k == nil {
		return nil
	}
	key := publishkey.Derive(k.master, "api", publishkey.All)
	return &key
}

// sign signs a request as a publisher of its project does, and what is about a host as one of all.
func (k *keys) sign(rec wire.Record, r compute.Request) wire.Record {
	if k == nil {
		return rec
	}
	projects := publishkey.Projects(r.Project)
	if r.Op.OfHost() {
		projects = publishkey.All
	}
	return publishkey.Derive(k.master, "own", projects).Sign(rec)
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

// forge writes reports that are no host's, and requests of nobody who may write them, until the fault ends.
func (w *play) forge(f schedule.Fault) {
	w.lasts(f.For, nil)
	came := false
	end, r := time.Now().Add(f.For.Duration()), rand.New(rand.NewPCG(w.Seed, 32))
	for n := 0; time.Now().Before(end) && w.sleep(forgeEvery); n++ {
		ctx, cancel := context.WithTimeout(w.ours.Life, time.Second)
		if w.forgeOnce(ctx, n, r) && !came {
			came = true
			w.rec.CountFault(f)
		}
		cancel()
	}
}

// forgeOnce writes one record; false: it is not known that it is there.
func (w *play) forgeOnce(ctx context.Context, n int, r *rand.Rand) bool {
	if n%4 == 3 {
		rec, x, ok := w.forgedRequest(r)
		if !ok {
			return false
		}
		offset, err := w.clients.producer.Append(ctx, rec)
		if err == nil {
			w.rec.AddForged(judge.Forged{
				Place: judge.Place{Partition: rec.Partition, Offset: offset}, At: time.Now(), Op: x.Op, Command: x.Command,
			})
		}
		return err == nil
	}
	rec, ok := w.keys.replayed(r)
	if n%2 == 0 || !ok {
		rec, ok = w.forged(r)
	}
	return ok && w.clients.producer.Send(ctx, rec) == nil
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

// forgedName is what a stranger's boots are called.
const forgedName = "forged"

// forgedRequest is what might do most harm: the end of a machine or placeholder that is there, a power command, a boot of what
// is not there, also into a reservation, another reservation, or that a host is dead.
func (w *play) forgedRequest(r *rand.Rand) (rec wire.Record, x compute.Request, ok bool) {
	all := w.rec.Instances()
	ids := slices.Sorted(maps.Keys(all))
	if len(ids) == 0 {
		return rec, x, false
	}
	inst := all[ids[r.IntN(len(ids))]]
	x = compute.Request{
		Project: inst.Project, Instance: inst.ID, At: time.Now(), Hard: true, Command: "forged",
		Op: []compute.RequestOp{
			compute.OpDelete, compute.OpStop, compute.OpReboot, compute.OpBoot, compute.OpBoot, compute.OpForget,
			compute.OpFence, compute.OpReserve,
		}[r.IntN(8)],
	}
	partition := wire.Partition(x.Project, w.World.Partitions)
	switch {
	case x.Op == compute.OpBoot:
		x.Hard, x.Command = false, ""
		x.Instance = compute.InstanceID(fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.Uint64()>>16))
		x.Boot = &compute.Boot{Name: forgedName, Flavor: inst.Boot.Flavor, With: inst.Boot.With}
		if p := inst.Boot.Placeholder(); p.Of != "" {
			x.Boot.Reserving(p.Of)
		}
	case x.Op == compute.OpReserve:
		x.Hard, x.Command = false, ""
		x.Instance = compute.InstanceID(fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.Uint64()>>16))
		x.Reserve = &compute.Reserve{
			Name: forgedName, From: x.At, Until: x.At.Add(time.Hour), Instances: []compute.InstanceID{x.Instance},
			Boot: compute.Boot{Flavor: inst.Boot.Flavor, With: inst.Boot.With},
		}
	case x.Op.OfHost():
		x = compute.Request{Op: x.Op, Host: w.World.Hosts[r.IntN(len(w.World.Hosts))].ID, At: x.At}
	}
	if x.Check() != nil {
		return rec, x, false
	}
	rec = wire.EncodeRequest(x).To(wire.Topics{Prefix: prefix}.Requests(), partition)
	switch r.IntN(3) {
	case 0: // unsigned
	case 1: // by the key of another project
		rec = publishkey.Derive(w.keys.master, "own", "stranger").Sign(rec)
	default: // with what was signed in another request
		was := w.keys.sign(wire.Record{Topic: rec.Topic, Value: []byte("another")}, x)
		rec.Headers = append(rec.Headers, was.Headers...)
	}
	return rec, x, true
}

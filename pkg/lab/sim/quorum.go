// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FaultQuorum is two of three brokers that are away for For, and come back together. No
// leader moves, since nobody can elect one, and the third takes nothing: it has too few
// replicas.
const FaultQuorum = "quorum"

// tooFew has the third broker refuse what it would have to write down.
func tooFew(third int32) []kfake.Fault {
	refuse := func(err *kerr.Error, top bool, keys ...kmsg.Key) kfake.Fault {
		return kfake.Fault{Keys: keys, Nodes: []int32{third}, Err: err, Count: -1, TopLevel: top}
	}
	return []kfake.Fault{
		refuse(kerr.NotEnoughReplicas, false, kmsg.Produce),
		refuse(kerr.CoordinatorNotAvailable, false, kmsg.OffsetCommit),
		refuse(kerr.CoordinatorNotAvailable, true, kmsg.JoinGroup, kmsg.SyncGroup),
		refuse(kerr.CoordinatorNotAvailable, true, kmsg.InitProducerID),
	}
}

// quorumLost takes two of three brokers away for a while.
func (w *play) quorumLost(f Fault) {
	b := w.broker.up()
	if b == nil {
		return
	}
	w.rec.came(f)
	w.reach.leave(0)
	w.reach.leave(1)
	refused := b.Fault(tooFew(2)...)
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		refused.Remove()
		w.reach.back(0)
		w.reach.back(1)
		w.rec.back(time.Now())
		w.rec.note("broker", "all are back")
	})
}

func (r *Recording) back(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Back = at
}

// backTime is how long after two of three brokers came back what was asked for is decided.
const backTime = 5 * time.Second

// checkBack: once most brokers are back, conductors write again soon: what was asked for
// before that, and later, is in the log. Where nothing else goes wrong.
func checkBack(r *Recording) (wrong []Violation) {
	if r.Back.IsZero() || slices.ContainsFunc(r.Schedule.Faults, func(f Fault) bool { return f.Kind != FaultQuorum }) {
		return nil
	}
	first := map[string]time.Time{}
	for _, w := range r.Log {
		if id := string(w.Instance.ID); first[id].IsZero() {
			first[id] = w.Seen
		}
	}
	for _, a := range r.accepted() {
		seen, due := first[string(a.ID)], latest(a.Answered, r.Back).Add(backTime+r.Schedule.slack())
		if a.Op == LoadBoot && (seen.IsZero() || seen.After(due)) {
			took := fmt.Sprintf("%.1f s after the brokers were back at %s", seen.Sub(r.Back).Seconds(), r.at(r.Back))
			wrong = append(wrong, broken("back", a.ID, due, "%s was accepted at %s and is in the log at %s, %s",
				a.Name, r.at(a.Answered), r.at(seen), took)...)
		}
	}
	return wrong
}

// outage is two of three brokers that are away while boots come, before and after.
func (g *generator) outage() {
	f := Fault{At: g.between(1, 4), For: g.between(5, 40), Kind: FaultQuorum, Who: "broker"}
	g.wrong(f)
	g.fresh(f.At, f.For+8, 5+g.IntN(6))
}

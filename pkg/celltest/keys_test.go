// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// believes is what conductors and queue managers go by; nil: they believe all.
func (r *rig) believes() *hostkey.Verifier {
	if r.keys == nil {
		return nil
	}
	return hostkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{*r.keys})
}

func (r *rig) keyOf(h compute.HostID) *hostkey.Key {
	if r.keys == nil {
		return nil
	}
	k := r.keys.Derive(h)
	return &k
}

// topicLog is all that was written to a topic.
type topicLog struct {
	mu   sync.Mutex
	recs []wire.Record
}

func (r *rig) topicLog(topic string) *topicLog {
	r.t.Helper()
	w := &topicLog{}
	r.start("written to "+topic, r.prepared("reader").Table(topic, func(recs cell.Records, _ bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.recs = append(w.recs, recs...)
	}))
	return w
}

func (w *topicLog) all() []wire.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recs)
}

// believable wants each report to be its host's, and no replay.
func believable(t *testing.T, v *hostkey.Verifier, recs []wire.Record) {
	t.Helper()
	heard := map[int32]*hostkey.Heard{}
	for _, rec := range recs {
		x, err := wire.DecodeReport(rec)
		if err != nil {
			t.Fatal(err)
		}
		proved, reason := v.Check(rec, x.Host)
		if heard[rec.Partition] == nil {
			heard[rec.Partition] = &hostkey.Heard{}
		}
		if reason == nil {
			reason = heard[rec.Partition].Observe(x.Host, x.Voice(), proved, time.Time{})
		}
		if reason != nil {
			t.Errorf("%s of %s: %s", x.Op, x.Host, reason)
		}
	}
}

// TestAgentsSignAllTheyWrite, whatever it is, and a cell that believes nothing else works.
func TestAgentsSignAllTheyWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafkatest.Embedded(t), smallHosts(2)...)
	master := hostkey.NewMaster([32]byte{1})
	r.keys = &master
	r.up()
	topics, v := r.cell("").Topics(), r.believes()
	reports, hosts := r.topicLog(topics.Reports()), r.topicLog(topics.Hosts())
	rejected, consoles := r.topicLog(topics.Rejected()), r.topicLog(topics.Consoles())
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, 4, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	_, err := c.Power(t.Context(), ids[0], compute.OpStop, "stop-1", false)
	r.must(err)
	r.poll("a machine is stopped", func() bool { return r.seen.get(ids[0]).Power == compute.PowerStopped })
	r.poll("an answer about a console", func() bool { // that simulated hosts keep none is one; what came late has none
		_, _ = c.Console(t.Context(), ids[1], 0, 1)
		return len(consoles.all()) > 0
	})
	r.send(wire.Record{Key: []byte("k"), Value: []byte("rubbish")}.To(topics.Host("host-01"), 0))
	r.poll("rubbish is written down", func() bool { return len(rejected.all()) > 0 })
	r.delete(c, ids)
	r.empty()
	r.await(ids, compute.StateDeleted)

	r.poll("a report of each kind, and a beacon", func() bool { // they are read apart from what conductors make of them
		said := map[compute.ReportOp]bool{}
		for _, rec := range reports.all() {
			x, err := wire.DecodeReport(rec)
			r.must(err)
			said[x.Op] = true
		}
		return said[compute.ReportHello] && said[compute.ReportClaim] && said[compute.ReportStarted] &&
			said[compute.ReportChanged] && said[compute.ReportGone] && len(hosts.all()) > 0
	})
	believable(t, v, reports.all())
	for _, rec := range hosts.all() {
		if _, reason := v.Check(rec, compute.HostID(rec.Key)); reason != nil {
			t.Errorf("a beacon of %s: %s", rec.Key, reason)
		}
	}
	for what, recs := range map[string][]wire.Record{
		"an answer about a console": consoles.all(), "a reject": rejected.all(),
	} {
		for _, rec := range recs {
			_, one := v.Check(rec, "host-01")
			_, two := v.Check(rec, "host-02")
			if one != nil && two != nil {
				t.Errorf("%s is no host's: %s", what, one)
			}
		}
	}
}

// TestStrangersAreNotBelieved: an agent without a key gets nothing, and one with another host's key
// cannot speak for it. Both are told apart in what is rejected.
func TestStrangersAreNotBelieved(t *testing.T) {
	t.Parallel()
	hosts := smallHosts(2)
	r := newRig(t, kafkatest.Embedded(t), hosts...)
	master := hostkey.NewMaster([32]byte{1})
	r.keys = &master
	r.startQueues()
	r.startConductor("conductor")
	r.startAPI()
	refused := r.refusals()
	r.startAgents(hosts[0])
	r.keys = nil
	r.startAgents(hosts[1]) // it does not sign
	r.keys = &master
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, 4, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	for _, id := range ids {
		if h := r.seen.get(id).Host; h != hosts[0].ID {
			t.Errorf("%s is on %s", id, h)
		}
	}
	inst := r.seen.get(ids[0])
	gone := compute.Report{
		Op: compute.ReportGone, Host: inst.Host, Project: inst.Project, Instance: inst.ID, Attempt: inst.Attempt,
		Claim: inst.Claim, Journal: inst.Journal, At: time.Now().UTC(),
	}
	rec := wire.EncodeReport(gone).To(r.cell("").Topics().Reports(), wire.Partition(inst.Project, r.kafka.Partitions))
	r.send(hostkey.NewSigner(master.Derive(hosts[1].ID)).Sign(rec))
	r.poll("both are written down", func() bool {
		refused.mu.Lock()
		defer refused.mu.Unlock()
		found := map[string]bool{}
		for at, why := range refused.why {
			for _, code := range []compute.ReasonCode{compute.Unsigned, compute.Forged} {
				if len(why) > len(code) && why[:len(code)] == string(code) {
					found[at.topic+" "+string(code)] = true
				}
			}
		}
		topics := r.cell("").Topics()
		return found[topics.Hosts()+" Unsigned"] && found[topics.Reports()+" Forged"]
	})
	if s := r.seen.get(ids[0]).State; s != compute.StateActive {
		t.Errorf("it is %s", s)
	}
}

// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// reports collect what an iteration has to say; the sender has it at the end of the iteration, all at once, so that it
// goes in one request.
type reports struct {
	o      *Options
	me     compute.Voice
	counts *counters
	unsent []said
}

// tell says something about an instance until Kafka has it.
func (r *reports) tell(x compute.Report) {
	x.Host, x.Journal, x.Started, x.At = r.o.Host, r.me.Journal, r.me.Started, r.o.Now().UTC()
	if x.Op == compute.ReportClaim {
		r.counts.claims.Add(1)
	}
	rec := wire.EncodeReport(x).To(r.o.Topics.Reports(), wire.AnyPartition)
	r.unsent = append(r.unsent, said{report: &x, rec: rec})
}

// hello tells every conductor that this host has missed whatever its stream
// said before this journal. Every life says it until all of it has arrived.
func (r *reports) hello() {
	for p := range r.o.Partitions {
		rec := wire.EncodeReport(compute.Report{
			Op: compute.ReportHello, Host: r.o.Host, Journal: r.me.Journal, Started: r.me.Started, At: r.o.Now().UTC(),
		})
		r.unsent = append(r.unsent, said{rec: rec.To(r.o.Topics.Reports(), p)})
	}
}

// unreadable leaves out a record that every agent reads. The process that writes the topic
// sees to it that it is written down, once and not once for every host.
func (r *reports) unreadable(rec wire.Record, err error) {
	r.o.Log.Warn("a record could not be read",
		zap.String("topic", rec.Topic), zap.Int64("offset", rec.Offset), zap.Error(err))
}

// reject writes down what could not be read of what was meant for this host, without its value: user data may be in it.
func (r *reports) reject(rec wire.Record, err error) {
	r.unreadable(rec, err)
	out := wire.EncodeRejected(compute.Rejected{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Key: rec.Key,
		Reason: compute.Reason{Code: compute.Malformed, Host: r.o.Host, Detail: err.Error()}, At: r.o.Now().UTC(),
	})
	r.unsent = append(r.unsent, said{rec: out.To(r.o.Topics.Rejected(), wire.AnyPartition)})
}

// aboutInstances says whether something about an instance waits to be sent.
func (r *reports) aboutInstances() bool {
	return slices.ContainsFunc(r.unsent, func(x said) bool { return x.report != nil })
}

// speak hands over what the iteration has to say. If it changes what the host is, the beacon that says so goes
// along.
func (l *loop) speak(now time.Time) {
	if len(l.reports.unsent) == 0 {
		return
	}
	if l.reports.aboutInstances() && !l.beacon.sending && l.view.known && now.Sub(l.beacon.sentAt) >= beaconsApart {
		if b := l.beaconNow(now); !same(b, l.beacon.last) {
			l.reports.unsent = append(l.reports.unsent, said{beacon: true, rec: l.beacon.begin(b, l.o.Topics, now)})
		}
	}
	l.sender.say(l.reports.unsent...)
	l.reports.unsent = nil
}

// beaconsApart is how far beacons that go along with reports are apart at least.
const beaconsApart = 100 * time.Millisecond

// acknowledged takes note of what Kafka has.
func (l *loop) acknowledged(batch []said) {
	for _, x := range batch {
		l.beacon.sending = l.beacon.sending && !x.beacon
		if r := x.report; r != nil {
			l.step(r.Instance, task.Acked{Op: r.Op, Attempt: r.Attempt, Claim: r.Claim})
		}
	}
}

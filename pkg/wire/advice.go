// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeAdvice makes the record of advice; it has no key.
func EncodeAdvice(a compute.Advice) Record {
	m := &pb.Advice{At: stamp(a.At), Full: a.Full, Rings: a.Rings}
	for _, q := range a.About {
		m.About = append(m.About, &pb.QueueAdvice{
			Queue:    text(q.Queue),
			Eligible: q.Eligible,
			Waiters:  q.Waiters,
			Depth:    q.Depth,
			Stray:    q.Stray,
			Oldest:   stamp(q.Oldest),
			Hosts:    hostCountsTo(q.Hosts),
			Late:     q.Late,
			Savers:   q.Savers,
		})
	}
	return seal(nil, m, "")
}

// DecodeAdvice reads advice. At is the broker's time where that is known.
func DecodeAdvice(rec Record) (compute.Advice, error) {
	return decode("advice", rec, &pb.Advice{}, adviceFrom)
}

func adviceFrom(r *reader, m *pb.Advice) compute.Advice {
	a := compute.Advice{At: r.said("at", m.GetAt()), Full: m.GetFull(), Rings: m.GetRings()}
	for _, q := range m.GetAbout() {
		a.About = append(a.About, compute.QueueAdvice{
			Queue:    compute.QueueName(q.GetQueue()),
			Eligible: q.GetEligible(),
			Waiters:  q.GetWaiters(),
			Depth:    q.GetDepth(),
			Stray:    q.GetStray(),
			Oldest:   r.time("about.oldest", q.GetOldest()),
			Hosts:    hostCountsFrom(q.GetHosts()),
			Late:     q.GetLate(),
			Savers:   q.GetSavers(),
		})
	}
	return a
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// MaxRejectedKey is how much of a rejected record's key is kept, in bytes: a
// key of any size must not keep its own rejection from being written.
const MaxRejectedKey = 1 << 10

// EncodeRejected makes the record of a rejection; its key is the input's. What
// is too long is cut.
func EncodeRejected(j compute.Rejected) Record {
	key := j.Key[:min(len(j.Key), MaxRejectedKey)]
	return seal(bytesOrNil(key), &pb.Rejected{
		Topic:     text(j.Topic),
		Partition: j.Partition,
		Offset:    j.Offset,
		Key:       key,
		Value:     j.Value[:min(len(j.Value), compute.MaxRejectedValue)],
		Reason:    reasonTo(&j.Reason),
		At:        stamp(j.At),
	}, "")
}

// DecodeRejected reads a rejection.
func DecodeRejected(rec Record) (compute.Rejected, error) {
	return decode("rejected", rec, &pb.Rejected{}, rejectedFrom)
}

func rejectedFrom(r *reader, m *pb.Rejected) compute.Rejected {
	j := compute.Rejected{
		Topic:     m.GetTopic(),
		Partition: m.GetPartition(),
		Offset:    m.GetOffset(),
		Key:       bytesOrNil(m.GetKey()),
		Value:     bytesOrNil(m.GetValue()),
		At:        r.time("at", m.GetAt()),
	}
	if reason := reasonFrom(r, m.GetReason()); reason != nil {
		j.Reason = *reason
	}
	return j
}

// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/unpack"
)

// batch is one record as a broker sends it.
func batch(f *testing.F) []byte {
	f.Helper()
	r := kmsg.NewRecord()
	r.Key, r.Value = []byte("k"), []byte("value")
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.Records = 2, 1, r.AppendTo(nil)
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	return b.AppendTo(nil)
}

// FuzzFetched reads what a fetch answers: it never goes back, whatever comes.
func FuzzFetched(f *testing.F) {
	f.Add(batch(f), int64(0), int64(1), int16(0))
	f.Fuzz(func(t *testing.T, batches []byte, from, end int64, code int16) {
		s := &Source{Topic: "t"}
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches, p.HighWatermark, p.LastStableOffset, p.ErrorCode = batches, end, end, code
		for _, committed := range []bool{true, false} {
			part := s.part(&p, from, committed, unpack.NewRoom())
			if part.Next < from {
				t.Errorf("reads on at %d after %d", part.Next, from)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"hash/crc32"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/wire"
)

// The client builds batches as it likes, and only of its own producer; what a
// turn writes to a partition must be one batch, under the partition's producer
// epoch. The format is of Kafka's documentation, "Record Batch".

const (
	batchMagic = 2
	// beforeLength is what a batch's length does not count: its first offset and
	// the length itself.
	beforeLength = 12
	// beforeSum is what a batch's checksum does not cover: all up to itself.
	beforeSum = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer is what a batch says of the producer that wrote it: Kafka refuses an older
// epoch, and a sequence number that does not follow.
type Writer struct {
	Producer int64
	Epoch    int16
	next     int32 // the sequence number of the next record
}

// Unnumbered is the writer of batches that no producer id numbers.
var Unnumbered = Writer{Producer: -1, Epoch: -1, next: -1}

// Encode is records as one batch, uncompressed: Kafka takes all of it or
// nothing.
func Encode(w Writer, records []wire.Record, now time.Time) []byte {
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                batchMagic,
		LastOffsetDelta:      int32(len(records) - 1),
		FirstTimestamp:       now.UnixMilli(),
		MaxTimestamp:         now.UnixMilli(),
		ProducerID:           w.Producer,
		ProducerEpoch:        w.Epoch,
		FirstSequence:        w.next,
		NumRecords:           int32(len(records)),
	}
	var body []byte
	for i, r := range records {
		k := kmsg.Record{OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		body = k.AppendTo(body[:0])[1:] // behind its length, which is 0 as yet
		b.Records = kbin.AppendVarint(b.Records, int32(len(body)))
		b.Records = append(b.Records, body...)
	}
	out := b.AppendTo(make([]byte, 0, beforeSum+len(b.Records)+64))
	length := kbin.AppendInt32(nil, int32(len(out)-beforeLength))
	sum := kbin.AppendUint32(nil, crc32.Checksum(out[beforeSum:], castagnoli))
	copy(out[beforeLength-len(length):], length)
	copy(out[beforeSum-len(sum):], sum)
	return out
}

// After is the writer once it has written n records. Kafka counts to the
// largest int32, and on from 0.
func (w Writer) After(n int) Writer {
	w.next = int32((int64(w.next) + int64(n)) % (math.MaxInt32 + 1))
	return w
}

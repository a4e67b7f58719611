// SPDX-License-Identifier: Apache-2.0

package unpacktest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codecs are those of Kafka, by name.
func Codecs() map[string]kgo.CompressionCodecType {
	return map[string]kgo.CompressionCodecType{
		"gzip": kgo.CodecGzip, "snappy": kgo.CodecSnappy, "lz4": kgo.CodecLz4, "zstd": kgo.CodecZstd,
	}
}

// Records are values as the records of a batch.
func Records(values ...[]byte) []byte {
	var all []byte
	for i, v := range values {
		r := kmsg.NewRecord()
		r.OffsetDelta, r.Value = int32(i), v
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		all = r.AppendTo(all)
	}
	return all
}

// Batch is a batch of n records that were packed already, with its length and its
// checksum as they should be. change may make something else of its header.
func Batch(codec kgo.CompressionCodecType, first int64, n int32, packed []byte, change func(*kmsg.RecordBatch)) []byte {
	b := kmsg.NewRecordBatch()
	b.FirstOffset, b.PartitionLeaderEpoch, b.Magic, b.Attributes = first, -1, 2, int16(codec)
	b.LastOffsetDelta, b.NumRecords, b.Records = n-1, n, packed
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.FirstTimestamp = time.Now().UnixMilli() // of 1970 a broker's retention would take it, some 30 s after the broker began
	b.MaxTimestamp = b.FirstTimestamp
	if change != nil {
		change(&b)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// Pack is data as a codec packs it, in one stream that does not say how long it is.
func Pack(t testing.TB, codec kgo.CompressionCodecType, data ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case kgo.CodecNone:
		return bytes.Join(data, nil)
	case kgo.CodecSnappy:
		return s2.EncodeSnappy(nil, bytes.Join(data, nil))
	case kgo.CodecGzip:
		w = gzip.NewWriter(&out)
	case kgo.CodecLz4:
		w = lz4.NewWriter(&out)
	case kgo.CodecZstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	for _, d := range data {
		if _, err := w.Write(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Xerial is data as Java's snappy packs it: in blocks.
func Xerial(blocks ...[]byte) []byte {
	out := []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for _, b := range blocks {
		packed := s2.EncodeSnappy(nil, b)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(packed))), packed...)
	}
	return out
}

// Bomb is a batch of one good record whose value is so many MiB of nothing.
func Bomb(t testing.TB, codec kgo.CompressionCodecType, mib int) []byte {
	t.Helper()
	r := kmsg.NewRecord()
	r.Value = []byte{0}
	empty := r.AppendTo(nil)[1:] // behind its length
	last := len(empty) - 1       // the number of headers, behind the value
	value := kbin.AppendVarint(nil, int32(mib<<20))
	head := slices.Concat(empty[:last-2], value) // where one byte and its length were
	head = append(kbin.AppendVarint(nil, int32(len(head)+mib<<20+1)), head...)
	blocks, zeros := [][]byte{head}, make([]byte, 1<<20)
	for range mib {
		blocks = append(blocks, zeros)
	}
	blocks = append(blocks, empty[last:])
	packed := Xerial(blocks...)
	if codec != kgo.CodecSnappy {
		packed = Pack(t, codec, blocks...)
	}
	return Batch(codec, 0, 1, packed, nil)
}

// HeaderBomb is a batch of one good record that has so many headers of nothing, of two bytes each.
func HeaderBomb(t testing.TB, codec kgo.CompressionCodecType, headers int) []byte {
	t.Helper()
	r := kmsg.NewRecord()
	r.Value, r.Headers = []byte("value"), make([]kmsg.Header, headers)
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	return Batch(codec, 0, 1, Pack(t, codec, r.AppendTo(nil)), nil)
}

// At is a batch as a broker keeps it at an offset.
func At(batch []byte, first int64) []byte {
	binary.BigEndian.PutUint64(batch, uint64(first)) // its checksum does not cover this
	return batch
}

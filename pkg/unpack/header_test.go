// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/unpack/unpacktest"
)

// Every field of a header is where Kafka has it.
func TestHeader(t *testing.T) {
	records := unpacktest.Records([]byte("a"), []byte("b"))
	batch := unpacktest.Batch(kgo.CodecNone, 7, 2, records, func(b *kmsg.RecordBatch) {
		b.PartitionLeaderEpoch, b.ProducerID, b.MaxTimestamp, b.Attributes = 11, 12, 13, 0x10
	})
	h, rest, ok := parse(slices.Concat(batch, []byte("behind")))
	if !ok || string(rest) != "behind" || len(h.whole) != len(batch) || string(h.body) != string(records) {
		t.Fatalf("%+v, %q, %t", h, rest, ok)
	}
	h.whole, h.body = nil, nil
	if want := (header{first: 7, last: 8, epoch: 11, magic: 2, transactional: true, producer: 12, records: 2,
		time: 13, intact: true}); !same(h, want) {
		t.Errorf("%+v, want %+v", h, want)
	}
	h, _, _ = parse(unpacktest.Batch(kgo.CodecNone, 7, 0, nil, nil))
	if h.transactional || h.control || !h.intact || len(h.body) != 0 {
		t.Errorf("one without records: %+v", h)
	}
	h, _, _ = parse(unpacktest.Batch(kgo.CodecNone, 7, 0, nil, func(b *kmsg.RecordBatch) { b.Attributes = 0x20 }))
	if h.transactional || !h.control {
		t.Errorf("a marker: %+v", h)
	}
}

// same compares without what a header was read from.
func same(a, b header) bool {
	return a.first == b.first && a.last == b.last && a.epoch == b.epoch && a.magic == b.magic && a.codec == b.codec &&
		a.transactional == b.transactional && a.control == b.control && a.producer == b.producer &&
		a.records == b.records &&
		a.time == b.time && a.intact == b.intact
}

// What is cut off, or says that it is shorter than a batch can be, is none.
func TestHeadersThatAreNone(t *testing.T) {
	batch := unpacktest.Batch(kgo.CodecNone, 7, 1, unpacktest.Records([]byte("a")), nil)
	for n := range batch {
		if h, _, ok := parse(batch[:n]); ok {
			t.Fatalf("%d of %d bytes are %+v", n, len(batch), h)
		}
	}
	with := func(length int32, magic byte) []byte {
		b := slices.Concat(batch, batch)
		binary.BigEndian.PutUint32(b[8:], uint32(length))
		b[magicAt] = magic
		return b
	}
	for length := int32(-beforeLength - 1); length <= magicAt-beforeLength; length++ {
		if h, _, ok := parse(with(length, 2)); ok {
			t.Errorf("one of length %d is %+v", length, h)
		}
	}
	for length := int32(magicAt - beforeLength + 1); length < beforeBody-beforeLength; length++ {
		if h, rest, ok := parse(with(length, 2)); !ok || h.intact ||
			len(rest) != 2*len(batch)-int(length)-beforeLength {
			t.Errorf("one of length %d is %+v, %t", length, h, ok)
		}
	}
	if h, _, ok := parse(with(int32(len(batch)-beforeLength), 1)); !ok || !h.intact || h.epoch != -1 || h.body != nil {
		t.Errorf("messages of before are %+v, %t", h, ok)
	}
}

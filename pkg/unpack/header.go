// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// header is what stands before the records of a batch. The format is of Kafka's
// documentation, "Record Batch".
type header struct {
	first, last   int64 // offsets
	epoch         int32 // of the leader that wrote it; -1: not known
	magic         byte
	codec         int8
	transactional bool
	control       bool
	producer      int64
	records       int32
	time          int64 // of the newest record, in ms
	whole         []byte
	body          []byte // the records, packed
	intact        bool   // the checksum is right
}

const (
	batchMagic   = 2  // older formats hold messages, not batches
	beforeLength = 12 // what a batch's length does not count
	beforeSum    = 21 // what its checksum does not cover
	beforeBody   = 61
	magicAt      = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parse is the first batch of an answer and what is behind it; false if the answer
// ends before it does: brokers cut answers off where they are full.
func parse(in []byte) (h header, rest []byte, ok bool) {
	if len(in) <= magicAt {
		return header{}, nil, false
	}
	length := int64(int32(binary.BigEndian.Uint32(in[8:]))) + beforeLength
	if length <= magicAt || length > int64(len(in)) {
		return header{}, nil, false
	}
	h = header{whole: in[:length], magic: in[magicAt], epoch: -1}
	h.first = int64(binary.BigEndian.Uint64(in))
	h.last = h.first
	if h.magic != batchMagic || length < beforeBody {
		h.intact = h.magic != batchMagic // kgo checks messages
		return h, in[length:], true
	}
	attributes := binary.BigEndian.Uint16(in[21:])
	h.epoch = int32(binary.BigEndian.Uint32(in[12:]))
	h.intact = crc32.Checksum(h.whole[beforeSum:], castagnoli) == binary.BigEndian.Uint32(in[17:])
	h.codec = int8(attributes & 7)
	h.transactional, h.control = attributes&0x10 != 0, attributes&0x20 != 0
	if delta := int64(int32(binary.BigEndian.Uint32(in[23:]))); delta > 0 && h.first <= math.MaxInt64-delta {
		h.last += delta
	}
	h.time = int64(binary.BigEndian.Uint64(in[35:]))
	h.producer = int64(binary.BigEndian.Uint64(in[43:]))
	h.records = int32(binary.BigEndian.Uint32(in[57:]))
	h.body = h.whole[beforeBody:]
	return h, in[length:], true
}

// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

const (
	// MostOfAnswer is how many bytes one answer of a broker may become before what
	// is left of it is not looked at, and asked for again. One batch more fits always.
	MostOfAnswer = 64 << 20
	// perRecord is what a record takes beside its bytes: as the client's and as ours.
	perRecord = 256
	// leastRecord is how small a record can be: seven fields, a byte each.
	leastRecord = 7
)

// Reader reads record batches. The zero value is ready; it is safe for concurrent
// use.
type Reader struct{ decoders decoders }

// Room is how much more an answer may become.
type Room struct{ left int }

// NewRoom is for one answer.
func NewRoom() *Room { return &Room{left: MostOfAnswer} }

// Asked is what was asked of a partition.
type Asked struct {
	Topic     string
	Partition int32
	From      int64
	Committed bool // nothing of an aborted transaction
}

// Part is what an answer brought of a partition.
type Part struct {
	Records []wire.Record // those from Asked.From on, in order
	Next    int64         // behind the last offset that was looked at; at least Asked.From
	Epoch   int32         // of the leader that wrote the last batch that was looked at; -1: none was
	Epochs  []Epoch       // of the leaders that wrote those, each with its first batch
	Err     error         // the batch at Next is damaged
}

// Epoch is what a leader of one epoch wrote: from an offset on, up to the next one.
type Epoch struct {
	From   int64
	Number int32
}

// Part reads what an answer brought of a partition, as far as there is room.
func (r *Reader) Part(p *kmsg.FetchResponseTopicPartition, a Asked, room *Room) Part {
	out := Part{Next: a.From, Epoch: -1}
	var aborted *aborts
	if a.Committed {
		aborted = newAborts(p.AbortedTransactions)
	}
	for in := p.RecordBatches; room.left > 0; {
		h, rest, ok := parse(in)
		if !ok {
			break
		}
		if in = rest; h.last < a.From {
			continue
		}
		if !h.intact {
			out.Err = damaged(h)
			break
		}
		undone := aborted.undone(h)
		if h.control {
			aborted.end(h, r)
		} else if !undone {
			out.Records = append(out.Records, r.records(h, a, room)...)
		}
		if len(out.Epochs) == 0 || h.epoch != out.Epoch {
			out.Epochs = append(out.Epochs, Epoch{h.first, h.epoch})
		}
		out.Next, out.Epoch = max(out.Next, h.last+1), h.epoch
	}
	return out
}

// ErrNoRecord is the error of an offset where the log has no record.
var ErrNoRecord = errors.New("there is no record at the offset")

// Record finds the record at one offset among the batches of an answer.
func (r *Reader) Record(batches []byte, topic string, offset int64) (*wire.Record, error) {
	for in := batches; ; {
		h, rest, ok := parse(in)
		if !ok {
			return nil, ErrNoRecord
		}
		if in = rest; offset < h.first || offset > h.last {
			continue
		}
		if !h.intact {
			return nil, damaged(h)
		}
		for _, rec := range r.records(h, Asked{Topic: topic, From: offset}, NewRoom()) {
			if rec.Offset == offset {
				return &rec, nil
			}
		}
	}
}

func damaged(h header) error {
	return fmt.Errorf("the record batch at offset %d does not have the checksum that it should", h.first)
}

// records are those of one batch, or one that says why it is unreadable.
func (r *Reader) records(h header, a Asked, room *Room) []wire.Record {
	recs, why := r.read(h, a, room)
	if why == "" {
		return recs
	}
	return []wire.Record{{
		Topic: a.Topic, Partition: a.Partition, Offset: max(h.first, a.From), Value: []byte{},
		Time: time.UnixMilli(h.time).UTC(),
		Unread: &compute.Error{
			Kind: compute.KindInvalid, Field: "record batch",
			Value:   fmt.Sprintf("offsets %d to %d, %s, %d bytes", h.first, h.last, nameOf(h.codec), len(h.whole)),
			Message: why, Remedy: "have its producer send smaller batches, or without compression",
		},
	}}
}

// read is the records of a batch, or why they cannot be read.
func (r *Reader) read(h header, a Asked, room *Room) (recs []wire.Record, why string) {
	switch n := int64(h.records); {
	case h.magic > batchMagic:
		return nil, fmt.Sprintf("is of format %d", h.magic)
	case n < 0, h.codec == plain && h.magic == batchMagic && n*leastRecord > int64(len(h.body)):
		return nil, fmt.Sprintf("says that it holds %d records", n)
	case h.codec != plain && n*perRecord > MostOfBatch:
		return nil, fmt.Sprintf("holds %d records, more than %d", n, MostOfBatch/perRecord)
	case h.codec == plain && h.magic == batchMagic:
		headers := headersIn(h.body, MostOfBatch/perHeader)
		if room.left -= headers * perHeader; headers*perHeader > MostOfBatch {
			return nil, fmt.Sprintf("holds more than %d headers", MostOfBatch/perHeader)
		}
	}
	part := kmsg.NewFetchResponseTopicPartition()
	part.Partition, part.RecordBatches = a.Partition, h.whole
	d := &bounded{of: &r.decoders, most: MostOfBatch - int(h.records)*perRecord, headers: h.magic == batchMagic}
	opts := kgo.ProcessFetchPartitionOpts{
		Topic: a.Topic, Partition: a.Partition, Offset: h.first, DisableCRCValidation: h.magic == batchMagic,
	}
	got, behind := kgo.ProcessFetchPartition(opts, &part, d, nil)
	room.left -= d.used + int(h.records)*perRecord
	switch {
	case errors.Is(d.err, errTooLarge):
		return nil, fmt.Sprintf("unpacks to more than %d MiB", MostOfBatch>>20)
	case d.err != nil:
		return nil, fmt.Sprintf("cannot be unpacked: %s", d.err)
	case got.Err != nil:
		return nil, fmt.Sprintf("cannot be read: %s", got.Err)
	}
	for _, k := range got.Records {
		if k.Offset > h.last {
			return nil, fmt.Sprintf("holds a record of offset %d", k.Offset)
		}
		if k.Offset >= a.From {
			recs = append(recs, FromKgo(k))
		}
	}
	// A record whose offset is not above that of the one before, or lies before the
	// batch, is left out by the client; simulation makes records vanish so.
	if h.magic == batchMagic && behind != h.last+1 {
		return nil, fmt.Sprintf("does not hold the %d records that it says", h.records)
	}
	return recs, ""
}

// FromKgo turns a record that was read into ours. The bytes belong to the
// receiver; a small piece that is kept keeps the whole fetched batch alive.
func FromKgo(k *kgo.Record) wire.Record {
	r := wire.Record{
		Topic: k.Topic, Partition: k.Partition, Offset: k.Offset,
		Key: k.Key, Value: k.Value, Time: k.Timestamp.UTC(), Logged: k.Attrs.TimestampType() == logAppendTime,
	}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, wire.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// logAppendTime is what a record's attributes say where its timestamp is the broker's.
const logAppendTime = 1

// bounded unpacks for kgo, and remembers how that went.
type bounded struct {
	of      *decoders
	most    int
	headers bool // what it unpacks are records, whose headers count as perHeader each
	used    int
	err     error
}

// Decompress is of kgo.Decompressor.
func (b *bounded) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := b.of.unpack(int8(codec), src, b.most)
	if b.used += len(out); err == nil && b.headers {
		left := b.most - len(out)
		n := headersIn(out, left/perHeader) * perHeader
		if b.used += min(n, b.most); n > left {
			out, err = nil, errTooLarge
		}
	}
	if err != nil {
		b.used, b.err = b.used+b.most, err // so much may have been taken to find out
	}
	return out, err
}

// aborts are the aborted transactions of an answer. What a producer wrote from
// where one of them begins, up to its next abort marker, was undone.
type aborts struct {
	begin []kmsg.FetchResponseTopicPartitionAbortedTransaction
	open  map[int64]bool // producers inside one
}

func newAborts(all []kmsg.FetchResponseTopicPartitionAbortedTransaction) *aborts {
	if len(all) == 0 {
		return nil
	}
	a := &aborts{begin: slices.Clone(all), open: map[int64]bool{}}
	slices.SortFunc(a.begin, func(x, y kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(x.FirstOffset, y.FirstOffset)
	})
	return a
}

// undone says whether a batch is of an aborted transaction.
func (a *aborts) undone(h header) bool {
	if a == nil {
		return false
	}
	for len(a.begin) > 0 && a.begin[0].FirstOffset <= h.first {
		a.open[a.begin[0].ProducerID] = true
		a.begin = a.begin[1:]
	}
	return h.transactional && a.open[h.producer]
}

// end takes note of a marker.
func (a *aborts) end(h header, r *Reader) {
	if a == nil {
		return
	}
	part := kmsg.NewFetchResponseTopicPartition()
	part.RecordBatches = h.whole
	opts := kgo.ProcessFetchPartitionOpts{Offset: h.first, KeepControlRecords: true}
	got, _ := kgo.ProcessFetchPartition(opts, &part, &bounded{of: &r.decoders, most: markerBytes}, nil)
	// The version of the marker and its type, two bytes each; 0 is abort.
	if len(got.Records) > 0 {
		if key := got.Records[0].Key; len(key) >= 4 && key[2] == 0 && key[3] == 0 {
			delete(a.open, h.producer)
		}
	}
}

// markerBytes is more than any marker has.
const markerBytes = 1 << 10

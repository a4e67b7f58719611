// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// What lies before the offset that was asked for is not looked at, whatever it is; the
// epoch is that of the last batch that was.
func TestWhatLiesBefore(t *testing.T) {
	bad := plainBatch(0, "damaged")
	bad[len(bad)-1] ^= 1
	of := func(first int64, epoch int32, values ...[]byte) []byte {
		change := func(b *kmsg.RecordBatch) { b.PartitionLeaderEpoch = epoch }
		return unpacktest.Batch(kgo.CodecNone, first, int32(len(values)), unpacktest.Records(values...), change)
	}
	all := slices.Concat(bad, of(1, 6, []byte("a")), of(2, 7, []byte("b"), []byte("c")))
	var r Reader
	part := r.Part(answer(all), Asked{From: 1}, NewRoom())
	if diff := cmp.Diff([]string{"1 a", "2 b", "3 c"}, said(part.Records)); diff != "" || part.Next != 4 ||
		part.Epoch != 7 || !slices.Equal(part.Epochs, []Epoch{{1, 6}, {2, 7}}) || part.Err != nil {
		t.Errorf("up to %d, epoch %d, %v: %s", part.Next, part.Epoch, part.Err, diff)
	}
	for _, empty := range []Part{
		r.Part(answer(all), Asked{From: 4}, NewRoom()), r.Part(answer(all), Asked{From: 4}, &Room{}),
	} {
		if len(empty.Records) != 0 || empty.Next != 4 || empty.Epoch != -1 {
			t.Errorf("behind all: %+v", empty)
		}
	}
	if none := r.Part(answer(all), Asked{From: 1}, &Room{}); len(none.Records) != 0 || none.Next != 1 ||
		none.Epoch != -1 {
		t.Errorf("without room: %+v", none)
	}
	for offset, want := range []string{"", "a", "b", "c", ""} {
		rec, err := r.Record(all, "t", int64(offset))
		if (err == nil) != (want != "") || err == nil && (string(rec.Value) != want || rec.Offset != int64(offset)) {
			t.Errorf("at %d: %+v, %v", offset, rec, err)
		}
	}
}

// A batch that was emptied by compaction holds nothing, and is passed.
func TestAnEmptyBatch(t *testing.T) {
	empty := unpacktest.Batch(kgo.CodecNone, 0, 0, nil, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 4 })
	var r Reader
	part := r.Part(answer(empty, plainBatch(5, "a")), Asked{}, NewRoom())
	if diff := cmp.Diff([]string{"5 a"}, said(part.Records)); diff != "" || part.Next != 6 {
		t.Errorf("up to %d: %s", part.Next, diff)
	}
}

// A record of the client is ours, whole.
func TestFromKgo(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	got := FromKgo(&kgo.Record{
		Topic: "t", Partition: 3, Offset: 4, Key: []byte("k"), Value: []byte("v"), Timestamp: at,
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("b")}, {Key: "c", Value: []byte("d")}},
	})
	want := wire.Record{
		Topic: "t", Partition: 3, Offset: 4, Key: []byte("k"), Value: []byte("v"), Time: at.UTC(),
		Headers: []wire.Header{{Key: "a", Value: []byte("b")}, {Key: "c", Value: []byte("d")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	logged := unpacktest.Batch(kgo.CodecNone, 0, 1, unpacktest.Records([]byte("a")), func(b *kmsg.RecordBatch) {
		b.Attributes, b.MaxTimestamp = 8, at.UnixMilli()
	})
	var r Reader
	if rec, err := r.Record(logged, "t", 0); err != nil || !rec.Logged || !rec.Time.Equal(at) {
		t.Errorf("by the broker's clock: %+v, %v", rec, err)
	}
}

// Only a record at the very offset is answered: not the next one, and not that the next
// batch is damaged.
func TestThereIsNoRecord(t *testing.T) {
	gap := unpacktest.Records([]byte("a"))
	r := kmsg.NewRecord()
	r.OffsetDelta, r.Value = 2, []byte("c")
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	batch := unpacktest.Batch(kgo.CodecNone, 0, 2, r.AppendTo(gap), func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 2 })
	bad := plainBatch(9, "damaged")
	bad[len(bad)-1] ^= 1
	var reader Reader
	for _, offset := range []int64{1, 5} {
		if rec, err := reader.Record(slices.Concat(batch, bad), "t", offset); err != ErrNoRecord {
			t.Errorf("at %d: %+v, %v", offset, rec, err)
		}
	}
}

// How many records a batch may hold: packed, they and what each takes are bounded; as
// they are, there are no more than bytes for them.
func TestHowManyRecords(t *testing.T) {
	many := func(n, size int) []byte {
		values := make([][]byte, n)
		for i := range values {
			values[i] = make([]byte, size)
		}
		return unpacktest.Records(values...)
	}
	zstd := func(n, size int) []byte {
		return unpacktest.Batch(kgo.CodecZstd, 0, int32(n), unpacktest.Pack(t, kgo.CodecZstd, many(n, size)), nil)
	}
	little := many(10, 1)
	most := int32(len(little) / leastRecord)
	for name, c := range map[string]struct {
		batch []byte
		why   string
	}{
		"alike, packed small":        {zstd(1000, 1), ""},
		"large with what they take":  {zstd(100_000, 100), "unpacks to more than 32 MiB"},
		"many, as they are":          {unpacktest.Batch(kgo.CodecNone, 0, 140_000, many(140_000, 0), nil), ""},
		"more than bytes":            {unpacktest.Batch(kgo.CodecNone, 0, most+1, little, nil), "says that it holds"},
		"more than it can hold, yet": {unpacktest.Batch(kgo.CodecNone, 0, most, little, nil), "does not hold"},
	} {
		var r Reader
		h, _, _ := parse(c.batch)
		if recs, why := r.read(h, Asked{}, NewRoom()); !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %d records, %q", name, len(recs), why)
		}
	}
}

// What could not be unpacked may have taken as much as it was allowed: so much less may come.
func TestWhatFailsTakesRoom(t *testing.T) {
	packed := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0} // that it is 16 GiB
	room := NewRoom()
	var r Reader
	part := r.Part(answer(unpacktest.Batch(kgo.CodecZstd, 0, 1, packed, nil)), Asked{}, room)
	if len(part.Records) != 1 || part.Records[0].Unread == nil || room.left != MostOfAnswer-MostOfBatch {
		t.Errorf("%v, and room for %d", said(part.Records), room.left)
	}
}

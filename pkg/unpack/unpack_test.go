// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// plainBatch is one with these values.
func plainBatch(first int64, values ...string) []byte {
	var all [][]byte
	for _, v := range values {
		all = append(all, []byte(v))
	}
	return unpacktest.Batch(kgo.CodecNone, first, int32(len(values)), unpacktest.Records(all...), nil)
}

func answer(batches ...[]byte) *kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = slices.Concat(batches...)
	return &p
}

// said is what was read, unreadable batches by their reason.
func said(recs []wire.Record) (all []string) {
	for _, r := range recs {
		text := string(r.Value)
		if r.Unread != nil {
			text = r.Unread.Error()
		}
		all = append(all, fmt.Sprintf("%d %s", r.Offset, text))
	}
	return all
}

// allocated is how many bytes f takes of the heap, those that it gives back too.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A batch that unpacks to 1 GiB takes a small part of that to find out; it is told
// of, and what lies behind it is read.
func TestBombs(t *testing.T) {
	for name, codec := range unpacktest.Codecs() {
		t.Run(name, func(t *testing.T) {
			mib := 128
			if codec == kgo.CodecZstd {
				mib = 1024
			}
			bomb := unpacktest.At(unpacktest.Bomb(t, codec, mib), 1)
			t.Logf("%d bytes", len(bomb))
			p := answer(plainBatch(0, "before"), bomb, plainBatch(2, "behind"))
			var r Reader
			var got []wire.Record
			took := allocated(func() {
				for at := int64(0); at < 3; {
					part := r.Part(p, Asked{Topic: "t", From: at}, NewRoom())
					if part.Err != nil || part.Next <= at {
						t.Fatalf("from %d to %d: %v", at, part.Next, part.Err)
					}
					got, at = append(got, part.Records...), part.Next
				}
			})
			want := []string{"0 before",
				fmt.Sprintf("1 record batch %q: unpacks to more than 32 MiB; have its producer send smaller "+
					"batches, or without compression",
					fmt.Sprintf("offsets 1 to 1, %s, %d bytes", name, len(bomb))), "2 behind"}
			if diff := cmp.Diff(want, said(got)); diff != "" {
				t.Error(diff)
			}
			if kind := compute.KindOf(got[1].Unread); kind != compute.KindInvalid || got[1].Value == nil {
				t.Errorf("%v, value %v", kind, got[1].Value)
			}
			if most := uint64(6 * MostOfBatch); took > most {
				t.Errorf("%d MiB were allocated", took>>20)
			}
			if rec, err := r.Record(p.RecordBatches, "t", 1); err != nil || rec.Unread == nil {
				t.Errorf("%+v, %v", rec, err)
			}
		})
	}
}

// A frame that only says that it is large is not believed with an allocation.
func TestSizesThatAreOnlySaid(t *testing.T) {
	claims := map[string][]byte{
		"zstd":   {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0}, // 16 GiB
		"snappy": {0x80, 0x80, 0x80, 0x80, 0x04, 0},                               // 1 GiB
	}
	for name, packed := range claims {
		var d decoders
		took := allocated(func() {
			if _, err := d.unpack(int8(unpacktest.Codecs()[name]), packed, MostOfBatch); err == nil {
				t.Errorf("%s was believed", name)
			}
		})
		if took > 1<<20 {
			t.Errorf("%s: %d KiB were allocated", name, took>>10)
		}
	}
}

// What is large and honest is read, however it was packed.
func TestLargeBatches(t *testing.T) {
	values := [][]byte{bytes.Repeat([]byte("some text "), 1<<20), nil, []byte("last")}
	raw := unpacktest.Records(values...)
	packed := map[string][]byte{}
	codecs := unpacktest.Codecs()
	for name, codec := range codecs {
		packed[name] = unpacktest.Pack(t, codec, raw)
	}
	packed["snappy of Java"], codecs["snappy of Java"] = unpacktest.Xerial(slices.Collect(slices.Chunk(raw,
		32<<10))...), kgo.CodecSnappy
	wide, err := zstd.NewWriter(nil, zstd.WithWindowSize(32<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wide.Close() }()
	packed["zstd that says how large"], codecs["zstd that says how large"] = wide.EncodeAll(raw, nil), kgo.CodecZstd
	var stream bytes.Buffer
	wide.Reset(&stream)
	if _, err := wide.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := wide.Close(); err != nil {
		t.Fatal(err)
	}
	packed["zstd with a large window"], codecs["zstd with a large window"] = stream.Bytes(), kgo.CodecZstd
	packed["none"], codecs["none"] = raw, kgo.CodecNone
	for name, codec := range codecs {
		var r Reader
		part := r.Part(answer(unpacktest.Batch(codec, 5, 3, packed[name], nil)),
			Asked{Topic: "t", Partition: 2, From: 6}, NewRoom())
		if len(part.Records) != 2 || part.Next != 8 || part.Records[0].Value != nil ||
			string(part.Records[1].Value) != "last" || part.Records[1].Partition != 2 {
			t.Errorf("%s: %v up to %d, %v", name, said(part.Records), part.Next, part.Err)
		}
		batches := answer(unpacktest.Batch(codec, 5, 3, packed[name], nil)).RecordBatches
		if rec, err := r.Record(batches, "t", 5); err != nil || !bytes.Equal(rec.Value, values[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many batches that are each within the bound are read a part at a time.
func TestAnAnswerIsBoundedToo(t *testing.T) {
	const batches, mib = 20, 24
	packed := unpacktest.Pack(t, kgo.CodecZstd, unpacktest.Records(make([]byte, mib<<20)))
	var all [][]byte
	for i := range batches {
		all = append(all, unpacktest.Batch(kgo.CodecZstd, int64(i), 1, packed, nil))
	}
	var r Reader
	at := int64(0)
	for rounds := 0; at < batches; rounds++ {
		room := NewRoom()
		var part, other Part
		took := allocated(func() {
			part = r.Part(answer(all[at:]...), Asked{From: at}, room)
			other = r.Part(answer(all[at:]...), Asked{From: at, Partition: 1}, room) // of the same answer
		})
		if most := uint64(6 * (MostOfAnswer + MostOfBatch)); took > most {
			t.Errorf("%d MiB were allocated", took>>20)
		}
		if part.Next <= at || len(part.Records) != int(part.Next-at) || rounds < batches/4-2 && other.Next != at {
			t.Fatalf("from %d to %d and %d, %d records", at, part.Next, other.Next, len(part.Records))
		}
		at = part.Next
	}
}

// Whatever a batch says of itself, it takes no more than it was, and reading goes on.
func TestBatchesThatLie(t *testing.T) {
	some := unpacktest.Records([]byte("a"), []byte("b"))
	far := func() []byte {
		r := kmsg.NewRecord()
		r.OffsetDelta, r.Value = 1000, []byte("far")
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		return r.AppendTo(nil)
	}()
	for name, c := range map[string]struct {
		batch []byte
		says  string
	}{
		"far more records than bytes": {
			unpacktest.Batch(0, 1, 2, some, func(b *kmsg.RecordBatch) { b.NumRecords = 1 << 30 }),
			"says that it holds 1073741824 records",
		},
		"more records than there are": {
			unpacktest.Batch(0, 1, 3, slices.Concat(some, make([]byte, 100)), nil),
			"does not hold the 3 records that it says",
		},
		"fewer than none": {
			unpacktest.Batch(0, 1, 2, some, func(b *kmsg.RecordBatch) { b.NumRecords = -1 }),
			"says that it holds -1 records",
		},
		"packed, and far more": {
			unpacktest.Batch(kgo.CodecZstd, 1, 2, unpacktest.Pack(t, kgo.CodecZstd, some),
				func(b *kmsg.RecordBatch) { b.NumRecords = math.MaxInt32 }),
			"holds 2147483647 records",
		},
		"many tiny ones": {
			unpacktest.Batch(kgo.CodecZstd, 1, 200_000, unpacktest.Pack(t, kgo.CodecZstd, make([]byte, 2<<20)), nil),
			"holds 200000 records",
		},
		"not packed so":    {unpacktest.Batch(kgo.CodecGzip, 1, 2, some, nil), "cannot be unpacked"},
		"packed by nobody": {unpacktest.Batch(5, 1, 2, some, nil), "codec 5 is not known"},
		"a record of others": {
			unpacktest.Batch(0, 1, 2, slices.Concat(unpacktest.Records([]byte("a")), far), nil),
			"holds a record of offset 1001",
		},
		"of a later format": {
			unpacktest.Batch(0, 2, 1, some, func(b *kmsg.RecordBatch) { b.Magic = 3 }), "is of format 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Reader
			var part Part
			took := allocated(func() {
				part = r.Part(answer(plainBatch(0, "before"), c.batch, plainBatch(300_000, "behind")), Asked{},
					NewRoom())
			})
			if len(part.Records) != 3 || part.Err != nil || part.Next != 300_001 {
				t.Fatalf("%v up to %d, %v", said(part.Records), part.Next, part.Err)
			}
			if why := part.Records[1].Unread; why == nil || !strings.Contains(why.Error(), c.says) {
				t.Errorf("%v", why)
			}
			if took > 8<<20 {
				t.Errorf("%d MiB were allocated", took>>20)
			}
		})
	}
}

// What was damaged on its way or on a disk may have been good: nobody passes it.
func TestADamagedBatchIsNotPassed(t *testing.T) {
	bad := plainBatch(1, "damaged")
	bad[len(bad)-1] ^= 1
	var r Reader
	part := r.Part(answer(plainBatch(0, "before"), bad, plainBatch(2, "behind")), Asked{}, NewRoom())
	if len(part.Records) != 1 || part.Next != 1 || part.Err == nil {
		t.Errorf("%v up to %d, %v", said(part.Records), part.Next, part.Err)
	}
	if rec, err := r.Record(bad, "t", 1); err == nil {
		t.Errorf("%+v", rec)
	}
	if _, err := r.Record(nil, "t", 5); err != ErrNoRecord {
		t.Error(err)
	}
}

// log is a partition that several producers wrote to, in transactions and without, as
// it is answered to a reader from an offset on.
func log(t *rapid.T, from int64) *kmsg.FetchResponseTopicPartition {
	var batches [][]byte
	var p kmsg.FetchResponseTopicPartition
	p.Default()
	open, at := map[int64]int64{}, int64(0)
	put := func(n int32, producer int64, attributes int16, records []byte) {
		codec := kgo.CompressionCodecType(rapid.IntRange(0, 4).Draw(t, "codec"))
		if attributes&0x20 != 0 {
			codec = kgo.CodecNone
		}
		batches = append(batches, unpacktest.Batch(codec, at, n, pack(codec, records), func(b *kmsg.RecordBatch) {
			b.ProducerID, b.Attributes, b.PartitionLeaderEpoch = producer, b.Attributes|attributes, int32(at/10)
		}))
		at += int64(n)
	}
	for range rapid.IntRange(0, 20).Draw(t, "batches") {
		producer := rapid.Int64Range(1, 3).Draw(t, "producer")
		first, inside := open[producer]
		switch {
		case inside && rapid.Bool().Draw(t, "ends"):
			kind := rapid.ByteRange(0, 1).Draw(t, "commits")
			if kind == 0 && at >= from { // those before are not in an answer
				a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				a.ProducerID, a.FirstOffset = producer, first
				p.AbortedTransactions = append(p.AbortedTransactions, a)
			}
			r := kmsg.NewRecord()
			r.Key = []byte{0, 0, 0, kind}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			put(1, producer, 0x30, r.AppendTo(nil))
			delete(open, producer)
		case inside || rapid.Bool().Draw(t, "in a transaction"):
			if !inside {
				open[producer] = at
			}
			put(2, producer, 0x10, unpacktest.Records([]byte("x"), []byte("y")))
		default:
			put(3, producer, 0, unpacktest.Records([]byte("u"), nil, []byte("w")))
		}
	}
	p.RecordBatches = slices.Concat(batches...)
	if rapid.Bool().Draw(t, "cut off") && len(p.RecordBatches) > 0 {
		p.RecordBatches = p.RecordBatches[:len(p.RecordBatches)-rapid.IntRange(1, 40).Draw(t, "bytes")]
	}
	return &p
}

func pack(codec kgo.CompressionCodecType, records []byte) []byte {
	c, _ := kgo.DefaultCompressor(map[kgo.CompressionCodecType]kgo.CompressionCodec{
		kgo.CodecNone: kgo.NoCompression(), kgo.CodecGzip: kgo.GzipCompression(),
		kgo.CodecSnappy: kgo.SnappyCompression(),
		kgo.CodecLz4:    kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression(),
	}[codec])
	if c == nil {
		return records
	}
	out, _ := c.Compress(new(bytes.Buffer), records)
	return slices.Clone(out)
}

// Where nothing is wrong, what is read is what the client itself reads.
func TestReadsAsTheClientDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Asked{
			Topic: "t", Partition: 4, From: rapid.Int64Range(0, 20).Draw(t, "from"),
			Committed: rapid.Bool().Draw(t, "committed"),
		}
		p := log(t, a.From)
		opts := kgo.ProcessFetchPartitionOpts{Topic: "t", Partition: 4, Offset: a.From}
		if a.Committed {
			opts.IsolationLevel = kgo.ReadCommitted()
		}
		want, next := kgo.ProcessFetchPartition(opts, p, kgo.DefaultDecompressor(), nil)
		var wanted []wire.Record
		for _, k := range want.Records {
			k.Partition = 4
			wanted = append(wanted, FromKgo(k))
		}
		var r Reader
		got := r.Part(p, a, NewRoom())
		if diff := cmp.Diff(wanted, got.Records); diff != "" || got.Next != next || got.Err != nil {
			t.Fatalf("up to %d, not %d, %v: %s", got.Next, next, got.Err, diff)
		}
	})
}

// FuzzRecord reads what a share fetch answers, and a fetch.
func FuzzRecord(f *testing.F) {
	good := plainBatch(0, "value")
	f.Add(good, int64(0))
	f.Add(good[:len(good)-3], int64(0))
	f.Add(slices.Concat(good, good), int64(1))
	f.Add(unpacktest.Batch(kgo.CodecZstd, 0, 1, []byte{0x28, 0xb5, 0x2f, 0xfd}, nil), int64(0))
	f.Fuzz(func(t *testing.T, batches []byte, offset int64) {
		var r Reader
		rec, err := r.Record(batches, "t", offset)
		if (rec == nil) == (err == nil) || rec != nil && rec.Offset != offset {
			t.Errorf("%+v, %v", rec, err)
		}
		for _, committed := range []bool{false, true} {
			if part := r.Part(answer(batches), Asked{From: offset, Committed: committed},
				NewRoom()); part.Next < offset {
				t.Errorf("reads on at %d after %d", part.Next, offset)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// TestHeaderBombs: a header of two bytes takes fifty times as much as a client's and as ours. A batch with too many is
// told of before any is made, packed or not, and what lies behind it is read.
func TestHeaderBombs(t *testing.T) {
	codecs := maps.Clone(unpacktest.Codecs())
	codecs["uncompressed"] = kgo.CodecNone
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			headers, why := 15<<20, "unpacks to more than 32 MiB"
			if codec == kgo.CodecNone {
				headers, why = 500_000, "holds more than 262144 headers"
			}
			p := answer(plainBatch(0, "before"), unpacktest.At(unpacktest.HeaderBomb(t, codec, headers), 1),
				plainBatch(2, "behind"))
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
			if all := said(got); len(all) != 3 || all[0] != "0 before" || !strings.Contains(all[1], why) || all[2] != "2 behind" {
				t.Errorf("%q", all)
			}
			if most := uint64(6 * MostOfBatch); took > most {
				t.Errorf("%d MiB were allocated", took>>20)
			}
		})
	}
}

// TestHeadersFillAnAnswer: what its headers take counts for how much of an answer is looked at.
func TestHeadersFillAnAnswer(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodecType{"zstd": kgo.CodecZstd, "uncompressed": kgo.CodecNone} {
		var batches [][]byte
		for i := range 10 {
			batches = append(batches, unpacktest.At(unpacktest.HeaderBomb(t, codec, 200_000), int64(i)))
		}
		var r Reader
		room := NewRoom()
		part := r.Part(answer(batches...), Asked{Topic: "t"}, room)
		if n := len(part.Records); n != 3 || part.Next != 3 || part.Records[0].Unread != nil {
			t.Errorf("%s: %d batches were read, %v", name, n, part.Err)
		}
	}
}

// TestHeadersAreCounted compares with what a client reads, also of records that were changed.
func TestHeadersAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var packed []byte
		want, n := 0, rapid.IntRange(1, 4).Draw(t, "records")
		for i := range n {
			r := kmsg.NewRecord()
			r.OffsetDelta, r.TimestampDelta64 = int32(i), rapid.Int64().Draw(t, "time")
			r.Key, r.Value = maybe(t, "key"), maybe(t, "value")
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				r.Headers = append(r.Headers, kmsg.Header{Key: rapid.String().Draw(t, "name"), Value: maybe(t, "of")})
			}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			packed, want = r.AppendTo(packed), want+len(r.Headers)
		}
		if got := headersIn(packed, 100); got != want {
			t.Fatalf("%d headers, want %d", got, want)
		}
		if got := headersIn(packed, 0); min(got, 1) != min(want, 1) {
			t.Fatalf("%d headers where none may be, of %d", got, want)
		}
		var r Reader
		for _, rec := range r.Part(answer(unpacktest.Batch(kgo.CodecNone, 0, int32(n), packed, nil)), Asked{}, NewRoom()).Records {
			want -= len(rec.Headers)
		}
		if want != 0 {
			t.Fatalf("%d headers were not read", want)
		}
		damaged := slices.Clone(packed)
		damaged[rapid.IntRange(0, len(damaged)-1).Draw(t, "at")] ^= byte(1 + rapid.IntRange(0, 254).Draw(t, "change"))
		if got := headersIn(damaged, len(damaged)); got < 0 || got > len(damaged) {
			t.Fatalf("%d headers in %d bytes", got, len(damaged))
		}
	})
}

func maybe(t *rapid.T, what string) []byte {
	if rapid.Bool().Draw(t, "no "+what) {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, what)
}

// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/unpack/unpacktest"
)

// What is just as large as it may be is unpacked, one byte more is not, and what is cut
// off is an error, however it was packed.
func TestJustAsMuch(t *testing.T) {
	raw := bytes.Repeat([]byte("some text, "), 1000)
	packed := map[string][]byte{"snappy of Java": unpacktest.Xerial(slices.Collect(slices.Chunk(raw, 3000))...)}
	codecs := unpacktest.Codecs()
	for name, codec := range codecs {
		packed[name] = unpacktest.Pack(t, codec, raw)
	}
	codecs["snappy of Java"] = kgo.CodecSnappy
	for name, codec := range codecs {
		var d decoders
		for range 2 { // with a decoder that is used again, too
			if out, err := d.unpack(int8(codec), packed[name], len(raw)); err != nil || !bytes.Equal(out, raw) {
				t.Errorf("%s: %d bytes, want %d: %v", name, len(out), len(raw), err)
			}
			if out, err := d.unpack(int8(codec), packed[name], len(raw)-1); !errors.Is(err, errTooLarge) {
				t.Errorf("%s: %d bytes of which %d are allowed: %v", name, len(out), len(raw)-1, err)
			}
			if out, err := d.unpack(int8(codec), packed[name][:len(packed[name])-6], len(raw)); err == nil ||
				errors.Is(err, errTooLarge) {
				t.Errorf("%s, cut off: %d bytes, %v", name, len(out), err)
			}
		}
	}
}

// What only says that it is too large is called so, not damaged.
func TestSaidToBeTooLarge(t *testing.T) {
	for name, packed := range map[string][]byte{
		"a size of 16 GiB":   {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0},
		"a window of 64 MiB": {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x80, 1, 0, 0},
	} {
		var d decoders
		if _, err := d.unpack(codecZstd, packed, MostOfBatch); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Blocks of Java's snappy that do not add up are malformed.
func TestXerialFraming(t *testing.T) {
	good := unpacktest.Xerial([]byte("text"))
	long := slices.Clone(good)
	long[xerialHeader+3]++
	for name, packed := range map[string][]byte{
		"no block's length": append(slices.Clone(good), 0, 0, 0),
		"one byte behind":   append(slices.Clone(good), 0),
		"longer than it is": long,
	} {
		if out, err := unpackSnappy(packed, 1000); !errors.Is(err, errFraming) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	for n := len(xerial); n < xerialHeader; n++ { // it only begins so
		if out, err := unpackSnappy(good[:n], 1000); err == nil {
			t.Errorf("the first %d bytes hold %q", n, out)
		}
	}
}

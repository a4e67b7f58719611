// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MostOfBatch is how many bytes one compressed batch may unpack to, its records
// included as perRecord each, and their headers as perHeader. No batch that Berth writes is larger, packed or not.
const MostOfBatch = 32 << 20

// errTooLarge is the error of what would unpack to more than is allowed.
var errTooLarge = errors.New("too large")

// The codecs of Kafka's record batches.
const (
	plain int8 = iota
	codecGzip
	codecSnappy
	codecLz4
	codecZstd
)

func nameOf(codec int8) string {
	names := []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"}
	if int(codec) < len(names) {
		return names[codec]
	}
	return fmt.Sprintf("codec %d", codec)
}

// decoders are kept for the next batch: to make one costs more than to use it.
type decoders struct{ gzip, lz4, zstd sync.Pool }

// unpack is what src holds, errTooLarge if that is more than most bytes. It
// allocates three times most at the worst, whatever src says of itself.
func (d *decoders) unpack(codec int8, src []byte, most int) ([]byte, error) {
	switch codec {
	case plain:
		return src, nil
	case codecGzip:
		r, ok := d.gzip.Get().(*gzip.Reader)
		if !ok {
			r = new(gzip.Reader)
		}
		defer d.gzip.Put(r)
		if err := r.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		return readMost(r, len(src), most)
	case codecSnappy:
		return unpackSnappy(src, most)
	case codecLz4:
		r, ok := d.lz4.Get().(*lz4.Reader)
		if !ok {
			r = lz4.NewReader(nil)
		}
		defer d.lz4.Put(r)
		r.Reset(bytes.NewReader(src))
		return readMost(r, len(src), most)
	case codecZstd:
		return d.unpackZstd(src, most)
	}
	return nil, fmt.Errorf("%s is not known", nameOf(codec))
}

// readMost reads to the end.
func readMost(r io.Reader, packed, most int) ([]byte, error) {
	out := make([]byte, 0, min(max(4*packed, 512), most+1))
	for {
		n, err := r.Read(out[len(out):cap(out)])
		switch out = out[:len(out)+n]; {
		case len(out) > most:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(out) == cap(out):
			out = append(make([]byte, 0, min(2*cap(out), most+1)), out...)
		}
	}
}

// xerial is how a batch begins that Java's snappy wrote: blocks, each behind its
// length, and 16 bytes before them.
var xerial = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

var errFraming = errors.New("malformed snappy framing")

func unpackSnappy(src []byte, most int) ([]byte, error) {
	blocks := [][]byte{src}
	if len(src) > xerialHeader && bytes.HasPrefix(src, xerial) {
		var err error
		if blocks, err = xerialBlocks(src[xerialHeader:]); err != nil {
			return nil, err
		}
	}
	all := 0
	for _, b := range blocks {
		n, err := s2.DecodedLen(b)
		if err != nil {
			return nil, err
		}
		if all += n; all > most {
			return nil, errTooLarge
		}
	}
	out := make([]byte, all)
	at := 0
	for _, b := range blocks {
		n, _ := s2.DecodedLen(b)
		if _, err := s2.Decode(out[at:at+n:at+n], b); err != nil {
			return nil, err
		}
		at += n
	}
	return out, nil
}

func xerialBlocks(src []byte) (blocks [][]byte, _ error) {
	for len(src) > 0 {
		if len(src) < 4 {
			return nil, errFraming
		}
		n := binary.BigEndian.Uint32(src)
		if src = src[4:]; uint64(n) > uint64(len(src)) {
			return nil, errFraming
		}
		blocks, src = append(blocks, src[:n]), src[n:]
	}
	return blocks, nil
}

// unpackZstd takes no frame with a window of more than MostOfBatch either: levels 21
// and 22 of streams ask for that.
func (d *decoders) unpackZstd(src []byte, most int) ([]byte, error) {
	z, ok := d.zstd.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MostOfBatch)); err != nil {
			return nil, err
		}
	}
	defer d.zstd.Put(z)
	out, err := z.DecodeAll(src, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || len(out) > most {
		return nil, errTooLarge
	}
	return out, err
}

// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"sync"

	"github.com/berth-project/berth/pkg/wire"
)

// seal is what the header has: version, master, counter, MAC.
type seal struct {
	master  MasterID
	counter uint64
	mac     [sha256.Size]byte
}

const (
	sealVersion = 1
	sealBytes   = 1 + 4 + 8 + sha256.Size
)

func (s seal) encode() []byte {
	out := make([]byte, 0, sealBytes)
	out = append(append(out, sealVersion), s.master[:]...)
	out = binary.BigEndian.AppendUint64(out, s.counter)
	return append(out, s.mac[:]...)
}

func decodeSeal(b []byte) (s seal, err error) {
	if len(b) != sealBytes || b[0] != sealVersion {
		return seal{}, errors.New("the header " + wire.HeaderMAC + " is none that this version knows")
	}
	copy(s.master[:], b[1:5])
	s.counter = binary.BigEndian.Uint64(b[5:13])
	copy(s.mac[:], b[13:])
	return s, nil
}

// writeSum writes all that a MAC covers. Every part has its length before it, so that none
// can be moved into the next.
func writeSum(mac hash.Hash, rec wire.Record, counter uint64) {
	buf := make([]byte, 0, 256)
	part := func(b string) {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(b)))
		buf = append(buf, b...)
	}
	buf = append(buf, sealVersion)
	buf = binary.BigEndian.AppendUint64(buf, counter)
	part(rec.Topic) // the cell's prefix, too: a cell takes nothing of another's
	part(string(rec.Key))
	for _, h := range rec.Headers {
		if h.Key != wire.HeaderMAC {
			part(h.Key)
			part(string(h.Value))
		}
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(rec.Value)))
	mac.Write(buf)
	mac.Write(rec.Value)
}

// Signer signs what one process says for a host. It is safe for concurrent use.
type Signer struct {
	key Key

	mu      sync.Mutex
	mac     hash.Hash
	counter uint64
}

// NewSigner is one whose counter begins anew, as each process has it.
func NewSigner(k Key) *Signer { return &Signer{key: k, mac: hmac.New(sha256.New, k.secret[:])} }

// Sign is the record with a MAC, and a counter above that of all it signed before. Topic, key,
// value and headers must not change after it.
func (s *Signer) Sign(rec wire.Record) wire.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counter++
	out := seal{master: s.key.master, counter: s.counter}
	s.mac.Reset()
	writeSum(s.mac, rec, s.counter)
	s.mac.Sum(out.mac[:0])
	headers := slices.DeleteFunc(slices.Clone(rec.Headers), func(h wire.Header) bool { return h.Key == wire.HeaderMAC })
	rec.Headers = append(headers, wire.Header{Key: wire.HeaderMAC, Value: out.encode()})
	return rec
}

// Sender takes records for Kafka.
type Sender interface {
	Send(ctx context.Context, recs ...wire.Record) error
	SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error))
}

// Signed sends with a MAC on every record. What is sent again is signed again: it then counts
// as said later, and what is late of the first try is refused without loss.
func Signed(to Sender, k Key) Sender { return signed{to, NewSigner(k)} }

type signed struct {
	to     Sender
	signer *Signer
}

func (s signed) Send(ctx context.Context, recs ...wire.Record) error {
	return s.to.Send(ctx, s.sign(recs)...)
}

func (s signed) SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error)) {
	s.to.SendEach(ctx, s.sign(recs), told)
}

func (s signed) sign(recs []wire.Record) []wire.Record {
	out := make([]wire.Record, len(recs))
	for i, rec := range recs {
		out[i] = s.signer.Sign(rec)
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package publishkey

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"

	"github.com/berth-project/berth/pkg/wire"
)

// The header is text, so that a program without a Berth package makes it easily:
//
//	1 web-ci web-shop,web-test e9963d78 3f0e…
//	│ │      │                 │        ╰ MAC in hexadecimal digits
//	│ name   projects          master
//	version
//
// What comes before the MAC is called the signer here.
const version = "1"

// signer is what the header says before the MAC.
func (k Key) signer() string {
	return version + " " + string(k.name) + " " + string(k.projects) + " " + k.master.String()
}

// writeSum writes all that a MAC covers. Every part has its length before it, so that none can be moved into the next.
func writeSum(mac hash.Hash, rec wire.Record, signer string) {
	buf := make([]byte, 0, 256)
	length := func(n int) { buf = binary.BigEndian.AppendUint32(buf, uint32(n)) }
	for _, part := range []string{
		signer, rec.Topic, string(rec.Key), string(rec.Header(wire.HeaderSchema)),
		string(rec.Header(wire.HeaderContentType)),
	} {
		length(len(part))
		buf = append(buf, part...)
	}
	length(len(rec.Value))
	mac.Write(buf)
	mac.Write(rec.Value)
}

// Sign is a request with the header. It has its topic by then; neither that nor key, value, schema and content type may
// change after it.
func (k Key) Sign(rec wire.Record) wire.Record {
	mac, signer := hmac.New(sha256.New, k.secret[:]), k.signer()
	writeSum(mac, rec, signer)
	headers := slices.DeleteFunc(slices.Clone(rec.Headers), func(h wire.Header) bool {
		return h.Key == wire.HeaderPublisher
	})
	header := append([]byte(signer), ' ')
	rec.Headers = append(headers, wire.Header{
		Key: wire.HeaderPublisher, Value: hex.AppendEncode(header, mac.Sum(nil)),
	})
	return rec
}

// Sender takes records for Kafka.
type Sender interface {
	Send(ctx context.Context, recs ...wire.Record) error
	Append(ctx context.Context, rec wire.Record) (offset int64, err error)
}

// Signed sends with every request of that topic signed.
func Signed(to Sender, requests string, k Key) Sender { return signed{to, requests, k} }

type signed struct {
	to       Sender
	requests string
	key      Key
}

func (s signed) sign(rec wire.Record) wire.Record {
	if rec.Topic == s.requests {
		return s.key.Sign(rec)
	}
	return rec
}

func (s signed) Send(ctx context.Context, recs ...wire.Record) error {
	out := make([]wire.Record, len(recs))
	for i, rec := range recs {
		out[i] = s.sign(rec)
	}
	return s.to.Send(ctx, out...)
}

func (s signed) Append(ctx context.Context, rec wire.Record) (offset int64, err error) {
	return s.to.Append(ctx, s.sign(rec))
}

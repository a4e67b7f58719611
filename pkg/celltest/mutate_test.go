// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-project/berth/pkg/wire"
)

// golden reads the records that are committed as examples of what was ever
// written, those whose names begin so.
func golden(t *testing.T, kinds ...string) []wire.Record {
	t.Helper()
	var out []wire.Record
	files, err := filepath.Glob("../../pkg/wire/testdata/v1/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden records: %v", err)
	}
	for _, f := range files {
		if !slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(filepath.Base(f), k) }) {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parseGolden(t, string(text)))
	}
	if len(out) == 0 {
		t.Fatalf("no golden records of %v", kinds)
	}
	return out
}

func parseGolden(t *testing.T, text string) (rec wire.Record) {
	t.Helper()
	unquoted := func(s string) []byte {
		s, err := strconv.Unquote(s)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(s)
	}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "key":
			rec.Key = unquoted(rest)
		case "header":
			key, value, _ := strings.Cut(rest, " ")
			rec.Headers = append(rec.Headers, wire.Header{Key: key, Value: unquoted(value)})
		case "no":
		case "value":
			rec.Value = []byte{}
		default:
			b, err := hex.DecodeString(word)
			if err != nil {
				t.Fatal(err)
			}
			rec.Value = append(rec.Value, b...)
		}
	}
	return rec
}

// mutator spoils records, each time in another way; the seed decides how.
type mutator struct {
	*rand.Rand
	own, others []wire.Record // of the kind that the topic holds, and of any other
	keyed       bool          // a record without a key is refused by the broker itself
}

func newMutator(t *testing.T, seed uint64, keyed bool, kinds ...string) *mutator {
	t.Helper()
	return &mutator{Rand: rand.New(rand.NewPCG(seed, 0)), own: golden(t, kinds...), others: golden(t, ""), keyed: keyed}
}

// next is another spoiled record.
func (m *mutator) next() wire.Record {
	rec := m.copy(m.own[m.IntN(len(m.own))])
	for range 1 + m.IntN(3) {
		rec = m.spoil(rec)
	}
	if m.keyed && len(rec.Key) == 0 {
		rec.Key = fmt.Appendf(nil, "k%d", m.IntN(1000))
	}
	return rec
}

func (m *mutator) copy(rec wire.Record) wire.Record {
	rec.Key, rec.Value, rec.Headers = slices.Clone(rec.Key), slices.Clone(rec.Value), slices.Clone(rec.Headers)
	return rec
}

func (m *mutator) spoil(rec wire.Record) wire.Record {
	switch m.IntN(12) {
	case 0, 1, 2: // bits are flipped
		for range 1 + m.IntN(4) {
			if len(rec.Value) > 0 {
				rec.Value[m.IntN(len(rec.Value))] ^= 1 << m.IntN(8)
			}
		}
	case 3: // the end is missing
		rec.Value = rec.Value[:m.IntN(len(rec.Value)+1)]
	case 4, 5:
		rec.Value = m.fields(rec.Value)
	case 6:
		rec.Headers = m.headers(rec.Headers)
	case 7: // somebody else's key
		rec.Key = slices.Clone(m.others[m.IntN(len(m.others))].Key)
	case 8:
		rec.Key = m.bytes(40)
	case 9: // no key, no value, or neither
		if m.IntN(2) == 0 {
			rec.Key = nil
		}
		if m.IntN(4) == 0 {
			rec.Value = nil
		}
	case 10: // the wrong kind for the topic
		rec = m.copy(m.others[m.IntN(len(m.others))])
	case 11: // nothing at all of it is left
		rec.Value = m.bytes(200)
	}
	return rec
}

func (m *mutator) bytes(most int) []byte {
	b := make([]byte, m.IntN(most))
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	return b
}

// fields swaps, doubles or drops fields, changes their numbers, or lies about
// their lengths and amounts.
func (m *mutator) fields(value []byte) []byte {
	var fields [][]byte
	for rest := value; len(rest) > 0; {
		n := protowire.ConsumeFieldValue(tagOf(rest))
		_, _, tag := protowire.ConsumeTag(rest)
		if n < 0 || tag < 0 {
			fields = append(fields, slices.Clone(rest))
			break
		}
		fields = append(fields, slices.Clone(rest[:tag+n]))
		rest = rest[tag+n:]
	}
	if len(fields) == 0 {
		return value
	}
	i, j := m.IntN(len(fields)), m.IntN(len(fields))
	switch m.IntN(5) {
	case 0: // what was one field's is another's
		a, _, n := protowire.ConsumeTag(fields[i])
		b, typ, k := protowire.ConsumeTag(fields[j])
		if n > 0 && k > 0 && a != b {
			fields[i] = append(protowire.AppendTag(nil, b, typ), fields[i][n:]...)
		}
	case 1:
		fields = append(fields, fields[i])
	case 2:
		fields = slices.Delete(fields, i, i+1)
	case 3: // a length, or an amount
		if num, _, n := protowire.ConsumeTag(fields[i]); n > 0 {
			lie := protowire.AppendVarint(nil, m.Uint64()>>m.IntN(64))
			fields[i] = append(protowire.AppendTag(nil, num, protowire.Type(m.IntN(6))), lie...)
		}
	case 4:
		fields[i], fields[j] = fields[j], fields[i]
	}
	return slices.Concat(fields...)
}

func tagOf(b []byte) (protowire.Number, protowire.Type, []byte) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 1, 7, nil // no type: the field has no value
	}
	return num, typ, b[n:]
}

func (m *mutator) headers(h []wire.Header) []wire.Header {
	switch m.IntN(5) {
	case 0:
		return nil
	case 1:
		return append(h, h...)
	case 2:
		return append(
			h,
			wire.Header{
				Key:   wire.HeaderSchema,
				Value: []byte([]string{"2", "0", "", "-1", "1e3", "99999999999999999999"}[m.IntN(6)]),
			},
		)
	case 3:
		return append(
			h,
			wire.Header{
				Key:   wire.HeaderContentType,
				Value: []byte([]string{wire.ContentJSON, "text/plain", ""}[m.IntN(3)]),
			},
		)
	}
	return append(h, wire.Header{Key: wire.HeaderTrace, Value: m.bytes(300)})
}

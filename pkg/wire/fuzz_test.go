// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// harmless feeds a decoder anything: it must not panic, must refuse with a
// *compute.Error of KindInvalid, and what it takes must survive another trip.
func harmless[W any](f *testing.F, kind string, decode func(Record) (W, error), encode func(W) Record) {
	for _, s := range samples() {
		if len(s.name) >= len(kind) && s.name[:len(kind)] == kind {
			f.Add(s.rec.Key, s.rec.Value, string(s.rec.Header(HeaderSchema)), "")
		}
	}
	if kind == "request" {
		f.Add([]byte("web-shop"),
			[]byte(`{"project":"web-shop","instance":"0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a",`+
				`"boot":{"flavor":"m1.small","with":{"gpu":"a100"},"userData":"I2Nsb3Vk","deadline":"600s"}}`),
			"1", ContentJSON)
		f.Add([]byte("h"), []byte(`{"fence":{"host":"h"},"at":"2026-11-21T07:00:00Z"}`), "",
			"Application/JSON; charset=utf-8")
	}
	f.Fuzz(func(t *testing.T, key, value []byte, schema, contentType string) {
		rec := Record{Key: key, Value: value, Headers: []Header{
			{Key: HeaderSchema, Value: []byte(schema)}, {Key: HeaderContentType, Value: []byte(contentType)},
		}}
		first, err := decode(rec)
		var refusal *compute.Error
		if err != nil {
			if !errors.As(err, &refusal) || refusal.Kind != compute.KindInvalid {
				t.Fatalf("%#v is no refusal", err)
			}
			return
		}
		again := encode(first)
		second, err := decode(again)
		if err != nil {
			t.Fatalf("taken once, then refused: %v", err)
		}
		if diff := cmp.Diff(encode(second), again); diff != "" {
			t.Fatalf("changed on the way:\n%s", diff)
		}
	})
}

func FuzzDecodeRequest(f *testing.F)  { harmless(f, "request", DecodeRequest, EncodeRequest) }
func FuzzDecodeReport(f *testing.F)   { harmless(f, "report", DecodeReport, EncodeReport) }
func FuzzDecodeInstance(f *testing.F) { harmless(f, "instance", DecodeInstance, EncodeInstance) }
func FuzzDecodeRejected(f *testing.F) { harmless(f, "rejected", DecodeRejected, EncodeRejected) }
func FuzzDecodeBuild(f *testing.F)    { harmless(f, "build", DecodeBuild, EncodeBuild) }
func FuzzDecodeCommand(f *testing.F)  { harmless(f, "command", DecodeCommand, EncodeCommand) }
func FuzzDecodeBeacon(f *testing.F)   { harmless(f, "beacon", DecodeBeacon, EncodeBeacon) }
func FuzzDecodeQueue(f *testing.F)    { harmless(f, "queue", DecodeQueue, EncodeQueue) }
func FuzzDecodeAdvice(f *testing.F)   { harmless(f, "advice", DecodeAdvice, EncodeAdvice) }
func FuzzDecodeConsole(f *testing.F)  { harmless(f, "console", DecodeConsole, EncodeConsole) }
func FuzzDecodeCatalog(f *testing.F)  { harmless(f, "catalog", DecodeCatalog, encodeCatalog) }

func FuzzDecodeAudit(f *testing.F) { harmless(f, "audit", DecodeAudit, EncodeAudit) }

func FuzzDecodeToken(f *testing.F) { harmless(f, "token", DecodeToken, encodeToken) }

func encodeToken(e TokenEntry) Record {
	if e.Revoked {
		return Tombstone(KeyToken(e.ID))
	}
	return EncodeToken(*e.Token)
}

func encodeCatalog(e CatalogEntry) Record {
	switch {
	case e.Flavor != nil:
		return EncodeFlavor(*e.Flavor)
	case e.Capability != nil:
		return EncodeCapability(*e.Capability)
	case e.Quota != nil:
		return EncodeQuota(*e.Quota)
	case e.Group != nil:
		return EncodeGroup(*e.Group)
	case e.GroupName != "":
		return Tombstone(KeyGroup(e.Project, e.GroupName))
	case e.FlavorName != "":
		return Tombstone(KeyFlavor(e.FlavorName))
	case e.Axis != "":
		return Tombstone(KeyCapability(e.Axis))
	}
	return Tombstone(KeyQuota(e.Project))
}

func FuzzParseInstanceKey(f *testing.F) {
	f.Add([]byte("web-shop/0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a"))
	f.Add([]byte("web-shop"))
	f.Fuzz(func(t *testing.T, key []byte) {
		p, id, err := ParseInstanceKey(key)
		if err == nil && string(KeyInstance(p, id)) != string(key) {
			t.Errorf("%q is read as %q and %q", key, p, id)
		}
		if err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%#v is no refusal", err)
		}
	})
}

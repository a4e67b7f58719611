// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Nothing is written in another schema than the first unless the writer says so: its reader
// may be of a version that reads no other.
func TestWrittenInTheFirstSchema(t *testing.T) {
	for _, s := range samples() {
		if got := string(s.rec.Header(HeaderSchema)); got != "1" {
			t.Errorf("%s is written in schema %q", s.name, got)
		}
	}
}

func TestInSchema(t *testing.T) {
	inst := sampleInstanceRecord()
	first := EncodeInstance(inst)
	later := first.InSchema(Schema + 1)
	if diff := cmp.Diff(EncodeInstance(inst), first); diff != "" {
		t.Errorf("what it was made of is changed: %s", diff)
	}
	for _, c := range []struct {
		rec   Record
		reads compute.Schema
		later bool
	}{
		{first, 0, false}, {first, 1, false}, {first.InSchema(0), 1, false},
		{later, 0, true}, {later, Schema, true}, {later, Schema + 1, false},
		{later.InSchema(Schema + 2), Schema + 1, true},
	} {
		if got := LaterThan(c.rec, c.reads); got != c.later {
			t.Errorf("schema %s for one that reads %d: later %v", c.rec.Header(HeaderSchema), c.reads, got)
		}
		got, err := DecodeInstance(c.rec.ReadUpTo(c.reads))
		if (err != nil) != c.later {
			t.Errorf("schema %s for one that reads %d: %v", c.rec.Header(HeaderSchema), c.reads, err)
		}
		if diff := cmp.Diff(inst, got); !c.later && diff != "" {
			t.Error(diff)
		}
	}
}

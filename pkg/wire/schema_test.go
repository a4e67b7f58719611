// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Nothing is written in another schema than the first unless it needs one or the writer says so: its reader
// may be of a version that reads no other.
func TestWrittenInTheFirstSchema(t *testing.T) {
	for _, s := range samples() {
		want := "1"
		switch {
		case strings.HasSuffix(s.name, "-sealed"):
			want = "2"
		case inSchemaOfGroups(s):
			want = "3"
		case strings.HasSuffix(s.name, "-set"), strings.HasSuffix(s.name, "-spread"):
			want = "4"
		case strings.HasSuffix(s.name, "-whole"), strings.HasSuffix(s.name, "-ranked"):
			want = "5"
		case strings.HasSuffix(s.name, "-preemptible"), strings.HasSuffix(s.name, "-reserved"):
			want = "6"
		}
		for n, want := range map[compute.Schema]string{0: want, 1: want, Schema: want, Schema + 1: fmt.Sprint(Schema + 1)} {
			if got := string(s.rec.WrittenUpTo(n).Header(HeaderSchema)); got != want {
				t.Errorf("%s is written in schema %q by one that may write %d", s.name, got, n)
			}
		}
	}
}

// inSchemaOfGroups says whether a sample is about a member of a group. A group itself is read by older versions: as
// something that they do not know.
func inSchemaOfGroups(s sample) bool {
	return strings.HasSuffix(s.name, "-group") && s.name != "catalog-group"
}

// TestNotOverlooked: user data that is sealed is read in no schema that a reader may know without knowing
// that, nor is the group of a member or the set that an instance is of, nor a group that spreads its members as one
// that does not, nor that a set is offered whole, nor a request of a class as one of none, nor a machine that may be
// taken away as one that keeps its place, nor a reservation.
func TestNotOverlooked(t *testing.T) {
	for _, s := range slices.Concat(
		sealedSamples(), groupSamples(), setSamples(), prioritySamples(), preemptSamples(), reservedSamples(),
	) {
		last := compute.Schema(1) // that does not know it
		switch {
		case inSchemaOfGroups(s):
			last = schemaGroups - 1
		case strings.HasSuffix(s.name, "-set"):
			last = schemaSets - 1
		case strings.HasSuffix(s.name, "-spread"):
			last = schemaSpread - 1
		case strings.HasSuffix(s.name, "-whole"):
			last = schemaWhole - 1
		case strings.HasSuffix(s.name, "-ranked"):
			last = schemaPriority - 1
		case strings.HasSuffix(s.name, "-preemptible"):
			last = schemaPreemptible - 1
		case strings.HasSuffix(s.name, "-reserved"):
			last = schemaReserved - 1
		case !strings.HasSuffix(s.name, "-sealed"):
			continue
		}
		if !LaterThan(s.rec, last) {
			t.Errorf("%s is read by older versions", s.name)
		}
		_, err := s.decode(s.rec.InSchema(last))
		var e *compute.Error
		if !errors.As(err, &e) || e.Field != HeaderSchema {
			t.Errorf("%s in schema %d: %v", s.name, last, err)
		}
		if got, err := s.decode(s.rec.InSchema(Schema + 1).ReadUpTo(Schema + 1)); err != nil ||
			cmp.Diff(s.want, got) != "" {
			t.Errorf("%s as a later version has it: %v, %v", s.name, got, err)
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

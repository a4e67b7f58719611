// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-project/berth/pkg/compute"
)

// Schema is the newest version of bodies that this code reads, with all before it; a
// record of a later one is refused, not guessed at.
//
// What is written is another matter: the least schema that has all that the record says,
// which its encoder chooses. It is compute.FirstSchema, schemaSealed for what has sealed
// user data (decision 0052), schemaGroups for what is about a member of a group
// (decision 0062), schemaSets for what is of a set (decision 0063), schemaSpread for
// groups that spread their members, and for the instances of those (decision 0064), and
// schemaWhole for what is of a set that is offered whole (decision 0066), schemaPriority
// for requests of another class than the normal one, and their instances (decision 0067),
// schemaPreemptible for requests of machines that may be taken away, and their instances
// (decision 0069), and schemaReserved for reservations, their placeholders and what takes
// these (decision 0070).
// So a cell without these is one that older versions read.
const Schema = 6

// SchemaWhole is the least in which a set can be offered whole.
const SchemaWhole = schemaWhole

// SchemaReserved is the least in which there are reservations.
const SchemaReserved = schemaReserved

const (
	schemaSealed compute.Schema = 2 // has sealed user data
	schemaGroups compute.Schema = 3 // has members of groups
	schemaSets   compute.Schema = 4 // has instances of sets
	schemaSpread compute.Schema = 4 // has groups that spread their members
	schemaWhole  compute.Schema = 5 // has sets that are offered whole

	schemaPriority compute.Schema = 5 // has requests of low and high priority

	schemaPreemptible compute.Schema = 6 // has machines that may be taken away
	schemaReserved    compute.Schema = 6 // has reservations
)

// says is what a record says that not every version reads.
type says struct {
	sealed bool // user data that is sealed
	member bool // of a group
	ofSet  bool
	spread bool // a group that spreads its members, or an instance of one
	whole  bool // a set that is offered whole
	ranked bool // a priority that is not normal

	preemptible bool // a machine that may be taken away
	reserved    bool // a placeholder, or what takes one
}

// inLeastSchema is the record in the least schema that has all that it says.
func (r Record) inLeastSchema(s says) Record {
	switch {
	case s.preemptible:
		return r.InSchema(schemaPreemptible)
	case s.reserved:
		return r.InSchema(schemaReserved)
	case s.whole:
		return r.InSchema(schemaWhole)
	case s.ranked:
		return r.InSchema(schemaPriority)
	case s.ofSet:
		return r.InSchema(schemaSets)
	case s.spread:
		return r.InSchema(schemaSpread)
	case s.member:
		return r.InSchema(schemaGroups)
	case s.sealed:
		return r.InSchema(schemaSealed)
	}
	return r
}

// needsSchema is a word that a record may have only in schema n or a later one: readers of earlier ones would overlook
// it, and do what it forbids.
func needsSchema[W ~string](r *reader, field string, n compute.Schema, w W) W {
	if w != "" {
		r.needsSchema(field, n)
	}
	return w
}

func (r *reader) needsSchema(field string, n compute.Schema) {
	if !LaterThan(r.rec, n-1) {
		r.refuse(compute.Invalid(HeaderSchema, string(r.rec.Header(HeaderSchema)),
			fmt.Sprintf("give %d with %s, which older readers would not see", n, field)))
	}
}

// sealed is user data that is sealed. It is refused in a schema whose readers may not know it: they would boot the
// machine without any.
func (r *reader) sealed(s []byte) compute.Sealed {
	if len(s) == 0 {
		return ""
	}
	if r.atMost("sealed_user_data", len(s), compute.MaxSealed); !LaterThan(r.rec, schemaSealed-1) {
		r.refuse(compute.Invalid(HeaderSchema, string(r.rec.Header(HeaderSchema)),
			fmt.Sprintf("give %d with sealed user data, which older readers would not see", schemaSealed)))
	}
	return compute.Sealed(s)
}

// WrittenUpTo is a record of one that may write schemas up to n. It differs where n is above Schema, which is so where
// a test plays a later version: that has a body of its own for everything. What says something that only a later
// schema than n has stays in that: its readers must not overlook it.
func (r Record) WrittenUpTo(n compute.Schema) Record {
	if n > Schema {
		return r.InSchema(n)
	}
	return r
}

// InSchema says in which schema a record is written.
func (r Record) InSchema(n compute.Schema) Record {
	if string(r.Header(HeaderSchema)) == strconv.Itoa(int(n.OrFirst())) {
		return r // as encoders write it: nearly every record is
	}
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h Header) bool { return h.Key == HeaderSchema })
	r.Headers = append([]Header{{Key: HeaderSchema, Value: schemaValue(n.OrFirst())}}, r.Headers...)
	return r
}

// ReadUpTo is a record for a member that reads schemas up to n, to be decoded. It
// differs where n is above Schema, which is so where a test plays a later version:
// its bodies are this one's.
func (r Record) ReadUpTo(n compute.Schema) Record {
	if IsLater(r) && !LaterThan(r, n) {
		return r.InSchema(Schema)
	}
	return r
}

// IsLater says whether a later Berth than this one wrote a record: it is not wrong, and
// means something that this one does not know.
func IsLater(rec Record) bool { return LaterThan(rec, Schema) }

// LaterThan says whether a record is of a later schema than n, up to which a member
// reads; 0: this version.
func LaterThan(rec Record, n compute.Schema) bool {
	if n == 0 {
		n = Schema
	}
	is, err := strconv.Atoi(string(rec.Header(HeaderSchema)))
	return err == nil && is > int(n)
}

func schemaValue(n compute.Schema) []byte { return strconv.AppendUint(nil, uint64(n), 10) }

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"strconv"

	"github.com/berth-project/berth/pkg/compute"
)

// Schema is the newest version of bodies that this code reads, with all before it; a
// record of a later one is refused, not guessed at.
//
// What is written is another matter: compute.FirstSchema, unless it is known that all
// readers of the record read a newer one (decision 0046). Then InSchema says so.
const Schema = 1

// InSchema says in which schema a record is written. The bodies of all schemas that
// there are so far are the same: the first that differs makes the schema an argument
// of its encoder.
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

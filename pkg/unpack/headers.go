// SPDX-License-Identifier: Apache-2.0

package unpack

import "encoding/binary"

// perHeader is what a header of a record takes beside its bytes, of which it needs two: as the client's and as ours,
// while there is room for more of them than there are.
const perHeader = 128

// headersIn counts the headers of the records of a batch, up to where there are more than most. It believes lengths
// only; what is no record ends the count, and is for the client to refuse.
func headersIn(records []byte, most int) (n int) {
	for len(records) > 0 && n <= most {
		length, rest, ok := varint(records)
		if !ok || length < 0 || length > int64(len(rest)) {
			return n
		}
		of, known := headersOf(rest[:length])
		if !known {
			return n
		}
		n, records = n+of, rest[length:]
	}
	return n
}

// headersOf is how many headers a record says that it has, no more than it has bytes for.
func headersOf(record []byte) (n int, known bool) {
	if len(record) == 0 {
		return 0, false
	}
	in := record[1:] // behind its attributes
	for range 2 {    // when it was made, and its offset
		if _, in, known = varint(in); !known {
			return 0, false
		}
	}
	for range 2 { // its key and its value; -1 is none
		var length int64
		if length, in, known = varint(in); !known || length > int64(len(in)) {
			return 0, false
		}
		in = in[max(0, length):]
	}
	says, in, known := varint(in)
	return int(min(max(0, says), int64(len(in)))), known
}

func varint(in []byte) (v int64, rest []byte, ok bool) {
	v, n := binary.Varint(in)
	if n <= 0 {
		return 0, nil, false
	}
	return v, in[n:], true
}

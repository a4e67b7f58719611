// SPDX-License-Identifier: Apache-2.0

package compute

// Schema numbers the forms that records have had, from 1. A form is new where an
// older version would take it for something else, or for nothing: a field that may
// be overlooked makes none. 0: not said.
type Schema uint32

// FirstSchema is what every version reads, and up to where one reads that does not
// say so: the last release before members said what they read.
const FirstSchema Schema = 1

// OrFirst is what a member reads that says s.
func (s Schema) OrFirst() Schema { return max(s, FirstSchema) }

// ReadByAll is the newest schema that all of these members read, of what each says.
// Where there is nobody, nothing newer than the first one is known to be read.
func ReadByAll(said ...Schema) Schema {
	all := Schema(0)
	for _, s := range said {
		if s = s.OrFirst(); all == 0 || s < all {
			all = s
		}
	}
	return all.OrFirst()
}

// SPDX-License-Identifier: Apache-2.0

package compute

import "time"

// Rejected is a record of the rejected topic: an input that could not be read
// or made no sense, kept with the reason so that nothing is dropped silently.
type Rejected struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte // the first MaxRejectedValue bytes; empty of topics in which user data may be
	Reason    Reason
	At        time.Time
}

// MaxRejectedValue is how much of a rejected record's value is kept, in bytes.
const MaxRejectedValue = 64 << 10

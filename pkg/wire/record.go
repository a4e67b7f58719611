// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Record is one Kafka record, whatever client carries it. Encoders fill Key,
// Value and Headers; the sender says where it goes with To.
type Record struct {
	Topic     string
	Partition int32 // AnyPartition when sending: by the key's hash
	Offset    int64 // as read; ignored when sending
	Key       []byte
	Value     []byte // nil is a tombstone
	Headers   []Header
	Time      time.Time // as read; ignored when sending
	Logged    bool      // as read: Time is when the broker appended it (LogAppendTime), not what its producer says
	// Unread is why nothing can be read of the record batch that this record
	// stands for, as read; nil: it is a record. It has no key, no headers and an
	// empty value then, and every decoder refuses it with this error.
	Unread error
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// AnyPartition lets the key's hash choose, exactly as Partition does.
const AnyPartition int32 = -1

// To addresses a record.
func (r Record) To(topic string, partition int32) Record {
	r.Topic, r.Partition = topic, partition
	return r
}

// At says where a record was read.
func (r Record) At(topic string, partition int32, offset int64) Record {
	r.Topic, r.Partition, r.Offset = topic, partition, offset
	return r
}

// recordOverhead is more than Kafka's format adds to a record, or to a header.
const recordOverhead = 100

// Size is how many bytes a record takes in a log, at most.
func (r Record) Size() int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += recordOverhead/2 + len(h.Key) + len(h.Value)
	}
	return n
}

// Header finds the last header of that name; nil if there is none.
func (r Record) Header(key string) []byte {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value
		}
	}
	return nil
}

// The headers Berth reads and writes.
const (
	HeaderSchema      = "berth-schema" // decimal schema version of the body
	HeaderTrace       = "traceparent"  // W3C trace context
	HeaderContentType = "content-type" // JSON on requests says application/json
	// HeaderPosition is on the last record of each batch of instances: how far the
	// inputs of the partition have been dealt with, and the effects of earlier
	// batches published; offsets of requests, reports and instances.
	HeaderPosition = "berth-position"
	HeaderTakeover = "berth-takeover" // on a takeover: the process that took the partition over
	HeaderMAC      = "berth-mac"      // on reports and beacons: of which host they are; see pkg/hostkey
	// HeaderPublisher is on requests: who writes them, and for which projects that may; see pkg/publishkey.
	HeaderPublisher = "berth-publisher"
)

// ContentJSON marks a request whose body is protojson.
const ContentJSON = "application/json"

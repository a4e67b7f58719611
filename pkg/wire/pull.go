// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"

	"github.com/berth-project/berth/pkg/compute"
)

// The types below are how an agent and the puller (pkg/kafka) meet.

// QueueRef is all a puller needs to know of a queue.
type QueueRef struct {
	Name    compute.QueueName
	Group   string          // share group
	TopicID compute.TopicID // the incarnation that was initialised; another one is not fetched
}

// SessionID names a share session of one puller: at one broker, for one share group. At most one fetch is open in a
// session, and it brings at most one record.
type SessionID struct {
	Broker int32
	Group  string
	// Secondary names the session beside the primary one: an open fetch cannot be changed, and
	// what comes up meanwhile need not wait for its end. Fetches in it are short.
	Secondary bool
}

// Pulled is how one fetch ended.
type Pulled struct {
	Session SessionID
	Record  *Record    // nil: nothing came in time, or Err
	Ref     WorkRef    // of the record
	Err     error      // the session was lost, with all it held; the next Open begins another
	Queues  []QueueRef // what the fetch listed
}

// WorkRef names one delivery of one record to this puller.
type WorkRef struct {
	Session     SessionID
	Queue       QueueRef
	Offset      int64
	Delivery    int16  // how often the record was delivered since the leader took over, from 1; no attempt number
	Incarnation uint64 // of the session that acquired it: acks to an earlier one are dropped, not sent
}

// Ack is what becomes of a delivered record.
type Ack uint8

// The acks.
const (
	AckAccept  Ack = iota + 1 // done here: it leaves the queue
	AckRelease                // not for this host: somebody else may have it at once
	AckReject                 // unreadable: it leaves the queue
	AckRenew                  // still working on it: keep the lock
)

// ErrNoTopic is the error of a record whose topic does not exist (any more).
var ErrNoTopic = errors.New("topic does not exist")

// ErrFull is the error of a record that was not even tried: too many others wait
// for the brokers in this process already.
var ErrFull = errors.New("too many records wait already")

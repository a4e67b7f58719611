// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"strconv"
	"time"

	"github.com/berth-project/berth/pkg/kafka"
)

const day = 24 * time.Hour

const (
	// inputRetention keeps requests and reports so long that a conductor may be
	// away for days, and idle partitions are committed in time.
	inputRetention = 14 * day
	// queueRetention is the longest deadline of a request and a margin: work
	// outlives no queue.
	queueRetention = 8 * day
	// auditRetention is how long it is known who did what, unless an operator sets the topic's retention.ms.
	auditRetention = 90 * day
	// tableRetention is how long a table remembers what was removed from it, for processes that were cut off and go on
	// with what they had read. There are few removals, so that it is long.
	tableRetention = 30 * day
	// tokenRetention is that for tokens: one that was revoked would count where a process was stopped for months.
	tokenRetention = 365 * day
	// adviceRetention holds many full rounds of advice.
	adviceRetention = 10 * time.Minute
)

// settings are the configuration of a topic.
type settings map[string]*string

// with is a copy with one more.
func (s settings) with(key, value string) settings {
	out := settings{key: &value}
	for k, v := range s {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// base is what all topics have: a limit that lets the largest record of Berth through, whatever the brokers' own is;
// the broker's time for each record, since it would refuse one from a writer with a clock that is an hour ahead; and
// with three replicas two that must have a record before it is acknowledged, so that one broker may be lost.
func base(replication int16) settings {
	s := settings{}.with("max.message.bytes", strconv.Itoa(maxMessageBytes)).
		with("message.timestamp.type", "LogAppendTime")
	if replication >= 3 {
		s = s.with("min.insync.replicas", "2")
	}
	return s
}

// maxMessageBytes is the largest batch a topic takes.
const maxMessageBytes = kafka.MaxRecordBytes + 64<<10

// compacted topics are tables. Only a segment that is no longer written to is
// compacted, so segments are small and do not stay open for ever.
func compacted(replication int16) settings {
	return base(replication).
		with("cleanup.policy", "compact").
		with("segment.bytes", strconv.Itoa(32<<20)).
		with("segment.ms", millis(6*time.Hour)).
		with("min.cleanable.dirty.ratio", "0.2")
}

// remembered topics are tables of which also a process that was cut off or stopped for so long, with what it had read
// in its memory, hears what was removed. After Kafka's default, a day, a host, a queue or a flavor would be there for
// ever.
func remembered(replication int16, keep time.Duration) settings {
	return compacted(replication).with("delete.retention.ms", millis(keep))
}

// retained topics are streams that are forgotten after a time.
func retained(replication int16, keep time.Duration) settings {
	return base(replication).
		with("cleanup.policy", "delete").
		with("retention.ms", millis(keep)).
		with("retention.bytes", "-1").
		with("segment.ms", millis(min(keep, day)))
}

// passing topics carry what somebody waits for now, and nobody reads again:
// little is kept, and not for long, however much comes.
func passing(replication int16) settings {
	return retained(replication, adviceRetention).
		with("retention.bytes", strconv.Itoa(64<<20)).
		with("segment.bytes", strconv.Itoa(16<<20))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

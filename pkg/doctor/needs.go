// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strconv"
)

// Setting is a broker setting that Berth needs: the one list that the doctor,
// README, deploy/kafka/server.properties and the compose file agree on.
type Setting struct {
	Name  string
	Value string // to put into server.properties
	Why   string
	judge func(value int64, f Facts) Level
}

// settingSessions is the one whose value goes by how many hosts there are.
const settingSessions = "group.share.max.share.sessions"

// Settings are those that have the same value in every cluster.
func Settings() []Setting {
	return []Setting{
		{
			settingSessions, "10000",
			"every agent has a share session or two at every broker and for every share group; who gets none " +
				"pulls nothing",
			sessions,
		},
		{
			"group.share.max.delivery.count.limit", "25",
			"a record that was declined this often is dropped from its queue and placed 30 s later than it could be",
			atLeast(25),
		},
		{
			"auto.create.topics.enable", "false",
			"Berth makes its topics with their settings; a topic made by accident has others", nil,
		},
		{
			"broker.session.timeout.ms", "3000",
			"placement stands still this long when a broker dies, and from 15 s on requests are given up " +
				"before it is noticed",
			stall,
		},
		{
			"replica.lag.time.max.ms", "5000",
			"while two brokers do not reach each other, what either of them leads cannot be written for one and a " +
				"half times as long",
			lag,
		},
		{"broker.heartbeat.interval.ms", "500", "a broker that is heard of too seldom is taken for dead", heartbeat},
	}
}

// Replicated is a setting of an internal topic: as many replicas as brokers, up
// to three; two in sync where there are three.
type Replicated struct {
	Name   string // the setting
	Value  string // with three brokers or more
	Topic  string
	InSync bool // min.isr, not the replication factor
}

// Internals are the internal topics that Berth stands on.
func Internals() []Replicated {
	return []Replicated{
		{"offsets.topic.replication.factor", "3", "__consumer_offsets", false},
		{"transaction.state.log.replication.factor", "3", "__transaction_state", false},
		{"transaction.state.log.min.isr", "2", "__transaction_state", true},
		{"share.coordinator.state.topic.replication.factor", "3", "__share_group_state", false},
		{"share.coordinator.state.topic.min.isr", "2", "__share_group_state", true},
	}
}

func atLeast(n int64) func(int64, Facts) Level {
	return func(v int64, _ Facts) Level { return when(v >= n, OK, Warn) }
}

// lag: a broker alone follows nobody.
func lag(v int64, f Facts) Level { return when(v > 5000 && len(f.Cluster.Brokers) > 1, Warn, OK) }

// sessions: with fewer than agents some pull nothing; it should not be close.
func sessions(v int64, f Facts) Level {
	need := sessionsNeeded(f)
	return when(v < need, Fail, when(v < need+need/4, Warn, OK))
}

// sessionsNeeded is two for every agent and share group: beside an open fetch an
// agent may need its secondary session.
func sessionsNeeded(f Facts) int64 {
	return 2 * int64(len(f.Beacons)*max(1, len(f.Groups)+len(f.GroupErrs)))
}

// requestTime is how long Berth's clients wait for an answer.
const requestTime = 15_000

func stall(v int64, _ Facts) Level { return when(v >= requestTime, Fail, when(v > 3000, Warn, OK)) }

// heartbeat: a broker should have a few chances within its session.
func heartbeat(v int64, f Facts) Level {
	session, known := int64(9000), false
	for _, b := range f.Cluster.Brokers {
		if n, err := strconv.ParseInt(b.Settings["broker.session.timeout.ms"], 10, 64); err == nil &&
			(!known || n < session) {
			session, known = n, true
		}
	}
	return when(v >= session, Fail, when(v > session/2, Warn, OK))
}

func when[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

// wanted is what an operator reads.
func (s Setting) wanted(f Facts) string {
	switch s.Name {
	case settingSessions:
		return fmt.Sprintf("at least %d (2 × agents × share groups), better %s", sessionsNeeded(f), s.Value)
	case "group.share.max.delivery.count.limit":
		return "at least " + s.Value
	case "auto.create.topics.enable":
		return s.Value
	case "broker.heartbeat.interval.ms":
		return "at most half of broker.session.timeout.ms, better " + s.Value
	}
	return "at most " + s.Value
}

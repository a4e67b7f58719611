// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// points are where a process may be killed: just before or after it sends a
// request, at a call of its hypervisor, or when its journal is on the disk.
var points = map[string][]string{
	"host": {
		"journal", "before:Prepare", "after:Prepare", "before:Launch", "after:Launch", "before:Destroy",
		"after:Destroy",
		"after:List", "send:Produce", "sent:Produce", "send:ShareFetch", "sent:ShareFetch",
		"send:ShareAcknowledge", "sent:ShareAcknowledge",
	},
	"conductor": {
		"send:Produce", "sent:Produce", "send:OffsetCommit", "sent:OffsetCommit",
		"send:InitProducerID", "sent:InitProducerID", "sent:ListOffsets",
	},
	"queues": {
		"send:CreateTopics", "sent:CreateTopics", "sent:DescribeShareGroupOffsets", "send:AlterShareGroupOffsets",
		"sent:AlterShareGroupOffsets",
		"send:Produce", "sent:Produce", "sent:DeleteTopics",
	},
	"api": {"send:Produce", "sent:Produce"},
}

// lost are the requests whose answers are lost, by the process that asks.
var lost = map[string][]string{
	"host": {"Produce", "Produce", "ShareFetch", "ShareAcknowledge", "Fetch"},
	"conductor": {
		"Produce",
		"Produce",
		"OffsetCommit",
		"OffsetFetch",
		"InitProducerID",
		"Heartbeat",
		"JoinGroup",
		"Fetch",
	},
	"queues": {"Produce", "CreateTopics", "AlterShareGroupOffsets", "DescribeShareGroupOffsets", "DeleteTopics"},
	"api":    {"Produce", "Fetch"},
}

// codes are the errors that a broker may answer requests with.
var codes = map[string][]string{
	"Produce": {
		"NOT_LEADER_FOR_PARTITION",
		"REQUEST_TIMED_OUT",
		"NOT_ENOUGH_REPLICAS",
		"NOT_ENOUGH_REPLICAS_AFTER_APPEND",
		"KAFKA_STORAGE_ERROR",
	},
	"Fetch": {"NOT_LEADER_FOR_PARTITION", "KAFKA_STORAGE_ERROR"},
	"OffsetCommit": {
		"COORDINATOR_LOAD_IN_PROGRESS",
		"NOT_COORDINATOR",
		"COORDINATOR_NOT_AVAILABLE",
		"UNKNOWN_MEMBER_ID",
		"ILLEGAL_GENERATION",
	},
	"InitProducerID": {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"},
	"ShareFetch": {
		"SHARE_SESSION_NOT_FOUND",
		"INVALID_SHARE_SESSION_EPOCH",
		"SHARE_SESSION_LIMIT_REACHED",
	},
	"ShareAcknowledge":          {"INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "NOT_LEADER_FOR_PARTITION"},
	"Heartbeat":                 {"UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "NOT_COORDINATOR"},
	"ListOffsets":               {"NOT_LEADER_FOR_PARTITION"},
	"CreateTopics":              {"REQUEST_TIMED_OUT", "NOT_CONTROLLER"},
	"AlterShareGroupOffsets":    {"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"},
	"DescribeShareGroupOffsets": {"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"},
	"OffsetFetch":               {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"},
}

// rarer are errors of requests that every process makes all the time, or nearly
// never. They are drawn after all else, so that a seed's other faults stay what
// they were.
var rarer = map[string][]string{
	"Metadata":        {"LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"},
	"FindCoordinator": {"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"},
	"JoinGroup": {
		"NOT_COORDINATOR",
		"COORDINATOR_LOAD_IN_PROGRESS",
		"COORDINATOR_NOT_AVAILABLE",
		"UNKNOWN_MEMBER_ID",
		"REBALANCE_IN_PROGRESS",
	},
	"SyncGroup": {
		"NOT_COORDINATOR",
		"COORDINATOR_LOAD_IN_PROGRESS",
		"UNKNOWN_MEMBER_ID",
		"ILLEGAL_GENERATION",
		"REBALANCE_IN_PROGRESS",
	},
	"Heartbeat":    {"ILLEGAL_GENERATION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"},
	"OffsetFetch":  {"UNSTABLE_OFFSET_COMMIT", "COORDINATOR_NOT_AVAILABLE"},
	"OffsetCommit": {"REBALANCE_IN_PROGRESS", "REQUEST_TIMED_OUT"},
	"ListOffsets": {
		"LEADER_NOT_AVAILABLE",
		"OFFSET_NOT_AVAILABLE",
		"FENCED_LEADER_EPOCH",
		"UNKNOWN_LEADER_EPOCH",
		"UNKNOWN_TOPIC_OR_PARTITION",
	},
	"Fetch": {
		"OFFSET_NOT_AVAILABLE",
		"FENCED_LEADER_EPOCH",
		"UNKNOWN_LEADER_EPOCH",
		"UNKNOWN_TOPIC_ID",
		"UNKNOWN_SERVER_ERROR",
		"REPLICA_NOT_AVAILABLE",
	},
	"Produce": {
		"LEADER_NOT_AVAILABLE",
		"UNKNOWN_SERVER_ERROR",
		"UNKNOWN_TOPIC_OR_PARTITION",
		"OUT_OF_ORDER_SEQUENCE_NUMBER",
		"INVALID_PRODUCER_EPOCH",
	},
	"InitProducerID": {"COORDINATOR_NOT_AVAILABLE", "UNKNOWN_SERVER_ERROR", "REQUEST_TIMED_OUT"},
	"ShareFetch": {
		"NOT_LEADER_FOR_PARTITION",
		"COORDINATOR_NOT_AVAILABLE",
		"UNKNOWN_SERVER_ERROR",
		"INVALID_REQUEST",
	},
	"ShareAcknowledge":          {"INVALID_SHARE_SESSION_EPOCH", "UNKNOWN_TOPIC_ID", "UNKNOWN_SERVER_ERROR"},
	"CreateTopics":              {"INVALID_REPLICATION_FACTOR", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SERVER_ERROR"},
	"DeleteTopics":              {"REQUEST_TIMED_OUT", "NOT_CONTROLLER", "THROTTLING_QUOTA_EXCEEDED"},
	"DescribeShareGroupOffsets": {"COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_SERVER_ERROR", "UNKNOWN_TOPIC_OR_PARTITION"},
	"AlterShareGroupOffsets":    {"COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION"},
}

// rare makes some of them, where anything goes wrong at all: of what goes right
// more is expected.
func (g *generator) rare() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 4))
	if len(g.s.Faults) == 0 || !g.chance(0.4) {
		return
	}
	for range pick(g, 1, 1, 2, 4) {
		f := Fault{
			At:   g.between(0, g.length),
			For:  g.span(),
			Kind: FaultCode,
			Who:  "broker",
			Key:  pick(g, keysOf(rarer)...),
		}
		f.Code, f.Nth = pick(g, rarer[f.Key]...), 1+g.IntN(5)
		g.wrong(f)
	}
}

// faults makes what goes wrong: a few things in some schedules, many in others.
func (g *generator) faults() {
	for range []int{pick(g, 1, 1, 2, 3), pick(g, 1, 2, 3, 4), pick(g, 2, 4, 6, 10)}[g.size] {
		g.fault()
	}
}

// span is how long something lasts: mostly seconds, at times minutes.
func (g *generator) span() Seconds {
	switch {
	case g.chance(0.5):
		return g.between(0.05, 2)
	case g.chance(0.7):
		return g.between(2, 12)
	case g.chance(0.8):
		return g.between(12, 70)
	}
	return g.between(70, 180)
}

// Window is how long a trap waits for its process.
const Window = 8

func (g *generator) kind() string {
	return pick(g, "host", "host", "host", "conductor", "conductor", "queues", "api")
}

// one is a process of a kind.
func (g *generator) one(kind string) string {
	w := g.s.World
	n := map[string]int{"host": len(w.Hosts), "conductor": w.Conductors, "queues": w.Managers, "api": w.Nodes}[kind]
	return fmt.Sprintf("%s-%d", kind, 1+g.IntN(n))
}

func (g *generator) fault() {
	kind := g.kind()
	f := Fault{At: g.between(0, g.length), For: g.span(), Who: g.one(kind)}
	f.Kind = pick(
		g, FaultKill, FaultKill, FaultKill, FaultKill, FaultPause, FaultDeaf, FaultMute, FaultCut, FaultOff, FaultSlow,
		FaultLose, FaultLose, FaultBroker, FaultCode, FaultCode, FaultDriver, FaultDriver, FaultPower, FaultWipe,
	)
	switch f.Kind {
	case FaultKill:
		f.By = g.span()
		f.For = 0
		if g.chance(0.65) {
			f.For, f.Point, f.Nth = Window, pick(g, points[kind]...), 1+g.IntN(3)
		}
		if kind == "host" {
			f.Disk = pick(g, "", "", "", "lost")
			if f.Point == "journal" {
				f.Disk = pick(g, "", "old")
			}
		}
	case FaultCut:
		f.For = 0
	case FaultSlow:
		f.By = g.between(0.02, 3)
	case FaultLose:
		f.Key, f.Nth = pick(g, lost[kind]...), 1+g.IntN(3)
		f.For = Window
	case FaultBroker:
		f.Who = "broker"
		f.For = min(f.For, 40)
	case FaultCode:
		f.Who = "broker"
		f.Key = pick(g, keysOf(codes)...)
		f.Code, f.Nth = pick(g, codes[f.Key]...), 1+g.IntN(4)
	case FaultDriver:
		g.driver(&f)
	case FaultPower, FaultWipe:
		f.Who = g.one("host")
		if f.Kind == FaultPower {
			f.Dead = pick(g, "", "", "fence", "forget")
		}
	}
	g.s.Faults = append(g.s.Faults, f)
}

func (g *generator) driver(f *Fault) {
	f.Who = g.one("host")
	f.Key = pick(g, "Prepare", "Prepare", "Launch", "Launch", "Destroy", "List", "Inventory", "Stop", "Start")
	f.Nth = g.IntN(4)
	switch g.IntN(3) {
	case 0:
		f.Hang = true
	case 1:
		f.By = g.between(0, 40)
	default:
		f.Code = pick(g, "host", "timeout", "request", "unknown")
		f.After = f.Key != "Prepare" && g.chance(0.4) // of a failed Prepare nothing is left
	}
}

func keysOf(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

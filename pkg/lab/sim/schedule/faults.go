// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// What goes wrong where there are several brokers. All but FaultLink is about "broker".
const (
	// FaultLink is about one process and one Broker, for For: Key says what does not get through.
	// Other processes reach that broker, and the process reaches the other brokers.
	FaultLink = "link"
	// FaultLeaders gives about half of all partitions another leader. Key Stale: one broker
	// says for For that the old ones lead.
	FaultLeaders = "leaders"
	// FaultCoordinators gives groups and transactional ids other coordinators. Key as above.
	FaultCoordinators = "coordinators"
	// FaultNode is a broker that is away for For: its connections break and none can be
	// opened. After By the others lead what it led.
	FaultNode = "node"
	// FaultDeposed is a conductor that is put out of its group and does not hear of it: it is
	// cut, as Key says, for For, from the coordinator alone, which leads the requests and
	// nothing else. Such is a coordinator that stood still for longer than a session lasts,
	// and goes on by ending the sessions.
	FaultDeposed = "deposed"
	// FaultParked is a conductor that is cut, as Key says, for For, from the leader of one
	// partition of instances, which leads nothing else, and is killed By later.
	FaultParked = "parked"
)

// What a way to a broker does not let through.
const (
	LinkMute = "mute" // requests
	LinkDeaf = "deaf" // answers
	LinkBoth = "both" // either
	LinkOff  = "off"  // it is refused: connections break and none can be opened
)

// What Broker says beside a number, for a FaultLink.
const (
	AtCoordinator = "coordinator" // of the conductors' group
	AtController  = "controller"  // where queues are made
	AtInstances   = "instances"   // the leader of the first partition of that topic
	AtReports     = "reports"     // as above
	AtHosts       = "hosts"       // as above
	AtCatalog     = "catalog"     // as above
	AtBuilds      = "builds"      // of a queue that is booted in
	AtHost        = "host"        // of the stream of the host that it is about, or of the first
)

// Stale is the Key of what moves without that one broker hears of it.
const Stale = "stale"

// ofBrokers says whether a fault needs several brokers.
func (f Fault) ofBrokers() bool {
	switch f.Kind {
	case FaultLink, FaultLeaders, FaultCoordinators, FaultNode, FaultDeposed, FaultParked, FaultQuorum,
		FaultApart:
		return true
	}
	return false
}

// WithOneBroker is the schedule without what needs several.
func (s Schedule) WithOneBroker() Schedule {
	s.World.Brokers = 0
	s.Faults = slices.DeleteFunc(slices.Clone(s.Faults), Fault.ofBrokers)
	return s
}

// Has says whether a sort of fault is planned, by its kind ("deposed", "link deaf"); "brokers": there
// are several, "many": many queues, "calm": nothing goes wrong, "orphaned": only queue managers are away,
// "resized": a flavor becomes another, "groups": some that are booted are members of groups, "spread": of such that spread
// their members.
func (s Schedule) Has(sort string) bool {
	switch sort {
	case "brokers":
		return s.World.Brokers > 1
	case "many":
		return len(s.World.Queues(s.World.Flavors)) >= ManyQueues
	case "calm":
		return len(s.Faults) == 0
	case "orphaned":
		return s.Orphaned()
	case "resized":
		return s.Resizes("")
	case "sets":
		return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadSet })
	case "groups":
		return len(s.World.Groups) > 0
	case LateGroups:
		return s.World.LateAt > 0
	case "regrouped":
		return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadGroup })
	case "zoned":
		return slices.ContainsFunc(s.World.Groups, func(g compute.Group) bool { return g.Over != "" })
	case "wholes":
		return slices.ContainsFunc(s.World.Groups, func(g compute.Group) bool {
			return strings.HasPrefix(string(g.Name), Packed)
		})
	case "reserved":
		return s.Reserves()
	case "ranked":
		return s.Ranked()
	case "deaf guests":
		return s.World.Deaf
	case "said again":
		return s.World.SayAgain > 0
	case "sips":
		return s.World.Sips
	case "saves":
		return s.World.Saves
	case "keys":
		return s.World.Keys
	case UnreadHosts:
		return s.unreadHosts()
	case "preempts":
		return s.Preempts()
	case "spread":
		return slices.ContainsFunc(s.World.Groups, func(g compute.Group) bool { return g.Spread != "" })
	}
	return slices.Contains(s.begunWith(), sort) ||
		slices.ContainsFunc(s.Faults, func(f Fault) bool { return strings.HasPrefix(KindOf(f), sort) })
}

// FaultClone is a second agent with the name of a host, for For: the disk of the
// host was copied, and the copy runs beside it, with a hypervisor of its own in
// which there is nothing. Key says whether the copy has the host's journal.
const FaultClone = "clone"

// CopiedJournal is the Key of a FaultClone with the host's journal as it was.
const CopiedJournal = "journal"

// FaultWord declares a host dead (Dead: "fence" or "forget") that has power: it lives, or it is
// not heard. Key says by what.
const FaultWord = "word"

// What declares a host dead.
const (
	WordRecord  = "record"  // a client that writes it to every partition of the requests
	WordAsked   = "asked"   // an operator's request, which is refused if the host was heard of lately
	WordPatient = "patient" // an operator's request after the host has been silent for long enough
)

// FaultQuorum is two of three brokers that are away for For, and come back together. No
// leader moves, since nobody can elect one, and the third takes nothing: it has too few
// replicas.
const FaultQuorum = "quorum"

// outage is two of three brokers that are away while boots come, before and after.
func (g *generator) outage() {
	f := Fault{At: g.between(1, 4), For: g.between(5, 40), Kind: FaultQuorum, Who: "broker"}
	g.wrong(f)
	g.fresh(f.At, f.For+8, 5+g.IntN(6))
}

// FaultApart is two of three brokers that do not reach each other for For: what they lead is not
// written until their followers count as out of sync, after 30 s. The third one and what it leads go on.
const FaultApart = "apart"

// divided has it in some worlds of several brokers in which something goes wrong with them already. It
// has numbers of its own, as all that came later.
func (g *generator) divided() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 24))
	if g.s.World.Brokers < 2 || g.calm() || g.s.Has(FaultDeposed) || g.s.Has(FaultParked) || g.s.Has(FaultQuorum) ||
		!g.chance(0.2) {
		return
	}
	f := Fault{At: g.between(0, g.length), For: g.between(5, 35), Kind: FaultApart, Who: "broker"}
	if len(g.names) > 0 {
		f.At = g.booting()
	}
	if g.s.Clones() {
		f.For = min(f.For, longest-10)
	}
	g.wrong(f)
}

// FaultRename is an agent that is started under another name, on the machines of its host, for For. Key says with
// which journal, and whether the operator has handed the machines over to it.
const FaultRename = "rename"

// The Keys of a FaultRename. An agent that is refused the machines is started again and again.
const (
	Refused = ""        // it has a new journal, and was handed over nothing: it is refused
	Adopted = "adopted" // it has a new journal, and the machines were handed over to it
	Carried = "carried" // it has the host's journal, to which they should be handed over: both are refused
)

func KindOf(f Fault) string {
	switch f.Kind {
	case FaultKill:
		who, _, _ := strings.Cut(f.Who, "-")
		return strings.TrimSpace("kill " + who + " " + f.Point)
	case FaultCode:
		return "code " + f.Key + " " + f.Code
	case FaultLose:
		return "lose " + f.Key
	case FaultLeaderless:
		return "leaderless " + f.Topic
	case FaultDriver:
		return "driver " + f.Key
	case FaultRing:
		return "ring " + f.Key
	case FaultPower:
		return strings.TrimSpace("power " + f.Dead)
	case FaultWipe:
		return strings.TrimSpace("wipe " + f.Disk)
	case FaultWord:
		return f.Kind + " " + f.Key
	case FaultApart:
		return "brokers " + f.Kind
	case FaultLie, FaultRename, FaultClone, FaultLink, FaultLeaders, FaultCoordinators:
		return strings.TrimSpace(f.Kind + " " + f.Key)
	}
	return f.Kind
}

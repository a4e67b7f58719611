// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Repeats says whether a queue's share state may be initialised more than once:
// the queue is made anew, the first time was refused, or two queue managers make it at once: Kafka
// fences none of them there, and whoever is second resets nothing that is more than a moment old.
func (s Schedule) Repeats() bool {
	return s.Drops() || slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.ofBrokers() || f.Kind == FaultCode && f.Key == "AlterShareGroupOffsets" ||
			f.Kind == FaultRing && f.Key == RingManagers ||
			f.endsOrHides() && strings.HasPrefix(f.Who, "queues-") && s.Ranked() // another one makes a tier that it began
	})
}

// endsOrHides says whether a process ends by a fault, or what it sends or hears comes late or never.
func (f Fault) endsOrHides() bool {
	switch f.Kind {
	case FaultKill, FaultPause, FaultMute, FaultDeaf, FaultOff, FaultSlow, FaultCut, FaultLose:
		return true
	}
	return false
}

// Restarts says whether the broker is ever away; only then it writes to a disk.
func (s Schedule) Restarts() bool {
	for _, f := range s.Faults {
		if f.Kind == FaultBroker {
			return true
		}
	}
	return false
}

func (s Schedule) Projects() (list []compute.Project) {
	for _, l := range s.Load {
		if l.Project != "" && !slices.Contains(list, l.Project) {
			list = append(list, l.Project)
		}
	}
	return list
}

// Stops says whether anything happens to a host but that calls of its hypervisor go wrong,
// or to what it says: then the next attempt may follow from something else.
func (s Schedule) Stops(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Kind != FaultDriver && f.Kind != FaultRing && (f.Who == "" || f.Who == "broker" || f.Who == string(h))
	})
}

// Begins says whether the agent of a host may begin again.
func (s Schedule) Begins(h compute.HostID) bool {
	return s.Stops(h) || slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Kind == FaultRing && f.Key == RingDead && f.Who == string(h)
	})
}

// LosesPower says whether a host loses power.
func (s Schedule) LosesPower(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Kind == FaultPower && (f.Who == "" || f.Who == string(h))
	})
}

// DriftedMost is how much earlier than asked for, by the right time, something may end where
// clocks drift: what a process knows of the log's time is up to ten minutes old.
const DriftedMost = time.Second

// Drifts is how far what a conductor takes for the log's time may be beside the time: the log
// counts in milliseconds.
func (w World) Drifts() time.Duration {
	if slices.ContainsFunc(w.Clocks, func(c Clock) bool { return c.Drift != 0 }) {
		return DriftedMost
	}
	return time.Millisecond
}

// Misses says whether a host may hear of something late, or never. A process that is
// killed reads all of its stream before it offers anything.
func (s Schedule) Misses(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		switch {
		case f.Who == "" || f.Who == "broker" || f.Dead != "":
			return true
		case f.Who != string(h), f.Kind == FaultKill, f.Kind == FaultPower, f.Kind == FaultUpgrade:
			return false
		}
		return f.Kind != FaultRing
	})
}

// Touches says whether anything at all happens to a host.
func (s Schedule) Touches(h compute.HostID) bool {
	return s.Misses(h) || slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Who == string(h) })
}

// AnswersWrong says whether an API node may be behind: it does not hear, or the broker does
// not answer.
func (s Schedule) AnswersWrong() bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Who == "" || f.Who == "broker" || strings.HasPrefix(f.Who, "api-")
	})
}

// deafens is how long a host has to be kept from the broker that leads its stream before it may take no work any more:
// 90 s after it last knew that it had read all, which in an idle stream is 40 s before the fault, and until it has
// connected again.
const deafens Seconds = 40

// MayQuarantine says whether a host has a cause to offer nothing of its own accord: calls of
// its hypervisor go wrong or hang, it has a twin, it has lost its journal, so that it is taken for
// a twin of what it was, or it may be kept for long from the broker that leads its stream.
func (s Schedule) MayQuarantine(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		if f.For >= deafens && (f.ofBrokers() || f.Kind == FaultBroker || f.Kind == FaultLeaderless) {
			return true
		}
		if f.Who != "" && f.Who != string(h) {
			return false
		}
		if f.For >= deafens && f.Kind == FaultOff {
			return true
		}
		switch f.Kind {
		case FaultDriver, FaultPause, FaultMute, FaultDeaf, FaultClone, FaultRename, FaultWipe, FaultPower:
			return true
		}
		return f.Disk != ""
	})
}

// Adds says whether a flavor is added while the world is there, and not before.
func (s Schedule) Adds(f compute.FlavorName) bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadAddFlavor && l.Flavor.Name == f })
}

// Roomy says whether each host alone could take all that is ever booted, and
// nobody wants it otherwise.
func (s Schedule) Roomy() bool {
	for _, l := range s.Load {
		if l.Op == LoadHost || l.Boot != nil && (len(l.Boot.Avoid) > 0 || len(l.Boot.With) > 0) {
			return false
		}
	}
	for _, h := range s.World.Hosts {
		if h.Totals[compute.VCPU] < 1000 || len(h.Traits) > 0 {
			return false
		}
	}
	return true
}

// Forgets says whether an operator may declare a host gone.
func (s Schedule) Forgets(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Dead == "forget" && (f.Who == "" || f.Who == string(h))
	})
}

// Hinders says whether anything may keep a host, or any if none is named, from building
// or running something: what happens to it or to the broker, and a conductor that does not
// answer its claims. What happens to rings does not.
func (s Schedule) Hinders(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		_, host := s.Host(compute.HostID(f.Who))
		switch {
		case f.Kind == FaultRing && f.Key != RingDead:
			return false
		case f.Who == "", f.Who == "broker", strings.HasPrefix(f.Who, "conductor-"):
			return true
		}
		return host && (h == "" || f.Who == string(h))
	})
}

// LostFor is for how long rings are lost, if nothing else goes wrong but that some
// come twice; otherwise 0. Each one in vain is waited for twice as long as the one
// before, so after that time work is rung for again within as long.
func (s Schedule) LostFor() (all Seconds) {
	for _, f := range s.Faults {
		switch {
		case f.Kind == FaultRing && f.Key == RingLost:
			all += f.For
		case f.Kind != FaultRing || f.Key != RingDoubled:
			return 0
		}
	}
	return all
}

// Robbable are the queues of the beginning; of many, those into which work comes.
func (s Schedule) Robbable() []compute.QueueName {
	list := s.World.Queues(s.World.Flavors)
	if len(list) < ManyQueues {
		return list
	}
	booted := s.Booted()
	return slices.DeleteFunc(list, func(q compute.QueueName) bool { return !slices.Contains(booted, q) })
}

// Flavor is one that is offered at some time, as it is at first.
func (s Schedule) Flavor(name compute.FlavorName) (compute.Flavor, bool) {
	for _, f := range s.World.Flavors {
		if f.Name == name {
			return f, true
		}
	}
	for _, l := range s.Load {
		if l.Op == LoadAddFlavor && l.Flavor.Name == name {
			return *l.Flavor, true
		}
	}
	return compute.Flavor{}, false
}

func (s Schedule) Axis(name compute.AxisName) compute.Capability {
	for _, a := range s.World.Axes {
		if a.Axis == name {
			return a
		}
	}
	return compute.Capability{}
}

// Host is one of the schedule's.
func (s Schedule) Host(id compute.HostID) (Host, bool) {
	for _, h := range s.World.Hosts {
		if h.ID == id {
			return h, true
		}
	}
	return Host{}, false
}

// Slack is how much later than it would be without a network something may be seen.
func (s Schedule) Slack() time.Duration { return 60 * s.World.Latency.Duration() }

// Flood is how far a conductor may be behind because of what a stranger writes one by one, where it reads one by one, too.
func (s Schedule) Flood() (long time.Duration) {
	for _, f := range s.Faults {
		if s.World.Sips && (f.Kind == FaultForge || f.Kind == FaultLie) {
			long = max(long, f.For.Duration())
		}
	}
	return long
}

// Seeds are the addresses of all brokers.
func (w World) Seeds() (list []string) {
	for i := range max(w.Brokers, 1) {
		list = append(list, fmt.Sprintf("localhost:%d", FirstPort+i))
	}
	return list
}

// Queues are all that are ever offered.
func (s Schedule) Queues() []compute.QueueName {
	flavors := slices.Clone(s.World.Flavors)
	for _, l := range s.Load {
		if l.Op == LoadAddFlavor {
			flavors = append(flavors, *l.Flavor)
		}
	}
	return s.World.Queues(flavors)
}

// Queues are those of flavors.
func (w World) Queues(flavors []compute.Flavor) (list []compute.QueueName) {
	for _, q := range w.permutations(flavors) {
		list = append(list, q.Name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Permutations are the queues of the flavors that there are from the beginning.
func (w World) Permutations() []compute.Queue { return w.permutations(w.Flavors) }

func (w World) permutations(flavors []compute.Flavor) (list []compute.Queue) {
	axes := map[compute.AxisName]compute.Capability{}
	for _, a := range w.Axes {
		axes[a.Axis] = a
	}
	for _, f := range flavors {
		list = append(list, compute.Permutations(f, axes)...)
	}
	return list
}

// Booted are the queues that anything is ever booted in, tiers of the classes of what is.
func (s Schedule) Booted() (list []compute.QueueName) {
	offered := s.Queues()
	add := func(b compute.Boot, with compute.Choices) {
		if q := compute.NameQueue(b.Flavor, with); slices.Contains(offered, q) {
			list = append(list, compute.TierName(q, b.Priority()))
		}
	}
	for _, l := range s.Load {
		if l.Op == LoadBoot {
			for _, with := range s.Given(l) {
				add(*l.Boot, with)
			}
		}
		if l.Op == LoadReserve {
			add(*l.Boot, l.Boot.With)
		}
		for _, b := range l.Boots {
			add(b, b.With)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Decides says whether nothing goes wrong with conductors, or with what the
// broker does.
func (s Schedule) Decides() bool {
	return !slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Who == "broker" || f.Who == "" || strings.HasPrefix(f.Who, "conductor-")
	})
}

// Orphaned says whether queue managers end, queues stay as they are, and nothing else goes wrong.
func (s Schedule) Orphaned() bool {
	others := slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Kind != FaultKill || !strings.HasPrefix(f.Who, "queues-")
	})
	return len(s.Faults) > 0 && !others && len(s.Queues()) == len(s.World.Queues(s.World.Flavors))
}

// Buries says whether a host may be declared dead; empty is any.
func (s Schedule) Buries(h compute.HostID) bool {
	return slices.ContainsFunc(
		s.Faults,
		func(f Fault) bool { return f.Dead != "" && (h == "" || f.Who == "" || f.Who == string(h)) },
	)
}

// Drops says whether anything that is offered is ever taken away.
func (s Schedule) Drops() bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool {
		return l.Op == LoadDropFlavor || l.Op == LoadDropAxis || l.Op == LoadResize
	})
}

// Resizes says whether a flavor is made smaller or larger; empty is any.
func (s Schedule) Resizes(name compute.FlavorName) bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool {
		return l.Op == LoadResize && (name == "" || l.Flavor.Name == name)
	})
}

// Lists says whether nothing goes wrong with what makes queues, or decides what they are for.
func (s Schedule) Lists() bool {
	return s.Decides() && !s.HindersManagers()
}

// HindersManagers says whether anything is aimed at a queue manager.
func (s Schedule) HindersManagers() bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return strings.HasPrefix(f.Who, "queues-") })
}

// Hides says whether, at any moment between two, something else than clones may keep a host from
// speaking or hearing. Of what is aimed at an instance nobody knows when that is, and where.
func (s Schedule) Hides(h compute.HostID, from, to time.Duration) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		switch {
		case f.Kind == FaultClone, f.Kind == FaultDriver, f.Kind == FaultRogue, f.Kind == FaultRing && f.Key != RingDead:
			return false
		case f.When != "":
			return true
		case f.Who != string(h) && f.Who != "broker" && f.Who != "":
			return false
		case f.Kind == FaultPower && f.Dead != "": // its power stays off until it is known to be dead: nobody says when
			return f.At.Duration() < to
		}
		return f.At.Duration() < to && from < (f.At+f.For+f.By).Duration()
	})
}

// DelaysEffects says whether, at any moment between two, what conductors publish may be held up, or the answers to it.
func (s Schedule) DelaysEffects(from, to time.Duration) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		switch {
		case to < f.At.Duration() || from > (f.At+f.For+f.By).Duration():
			return false
		case f.endsOrHides():
			return strings.HasPrefix(f.Who, "conductor-") || f.Who == "broker" || f.Who == "" && f.When == ""
		case f.Kind == FaultCode:
			return f.Key == "Produce" || f.Key == "Metadata"
		}
		return f.ofBrokers() || f.Kind == FaultBroker || f.Kind == FaultLeaderless
	})
}

// Clones says whether a host has a second agent of its name for a while.
func (s Schedule) Clones() bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Kind == FaultClone })
}

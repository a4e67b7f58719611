// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/wire"
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
	AtBuilds      = "builds"      // of a queue that is booted in
	AtHost        = "host"        // of the stream of the host that it is about, or of the first
)

// Stale is the Key of what moves without that one broker hears of it.
const Stale = "stale"

// ofBrokers says whether a fault needs several brokers.
func (f Fault) ofBrokers() bool {
	switch f.Kind {
	case FaultLink, FaultLeaders, FaultCoordinators, FaultNode, FaultDeposed, FaultParked, FaultQuorum:
		return true
	}
	return false
}

// withOneBroker is the schedule without what needs several.
func (s Schedule) withOneBroker() Schedule {
	s.World.Brokers = 0
	s.Faults = slices.DeleteFunc(slices.Clone(s.Faults), Fault.ofBrokers)
	return s
}

// Has says whether a sort of fault is planned, by its kind ("deposed", "link deaf"), or,
// for "brokers", whether there are several.
func (s Schedule) Has(sort string) bool {
	if sort == "brokers" {
		return s.World.Brokers > 1
	}
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return strings.HasPrefix(kindOf(f), sort) })
}

// ofBrokers has something go wrong between processes and brokers.
func (w *play) ofBrokers(p *process, f Fault) {
	if w.World.Brokers < 2 {
		return
	}
	switch f.Kind {
	case FaultLink:
		if n := w.brokerOf(f); n != noBroker && p != nil {
			w.cutFrom(p, f, n)
		}
	case FaultLeaders:
		w.moveLeaders(f)
	case FaultCoordinators:
		w.moveCoordinators(f)
	case FaultNode:
		w.nodeAway(f)
	case FaultDeposed:
		w.depose(f)
	case FaultParked:
		w.parkAndKill(f)
	case FaultQuorum:
		w.quorumLost(f)
	}
}

// brokerOf is which broker a fault is about.
func (w *play) brokerOf(f Fault) int {
	if n, err := strconv.Atoi(f.Broker); err == nil {
		return n - 1
	}
	topics, b := wire.Topics{Prefix: prefix}, w.broker.up()
	if b == nil {
		return noBroker
	}
	switch f.Broker {
	case AtCoordinator:
		return int(b.Coordinator(topics.ConductorGroup()))
	case AtController:
		return w.World.Brokers - 1
	case AtReports:
		return int(b.Leader(topics.Reports(), 0))
	case AtHosts:
		return int(b.Leader(topics.Hosts(), 0))
	case AtBuilds:
		for _, q := range w.booted() {
			if n := b.Leader(topics.Build(q), 0); n >= 0 {
				return int(n)
			}
		}
		return noBroker
	case AtHost:
		h := w.World.Hosts[0].ID
		if p := w.procs[f.Who]; p != nil && p.host != nil {
			h = p.host.ID
		}
		return int(b.Leader(topics.Host(h), 0))
	}
	return int(b.Leader(topics.Instances(), 0))
}

// cutFrom cuts a process from one broker.
func (w *play) cutFrom(p *process, f Fault, n int) {
	l := p.current()
	if l == nil {
		return
	}
	w.rec.note(p.name, fmt.Sprintf("is cut from broker %d (%s)", n+1, f.Key))
	end := l.cutWay(f.Key, n)
	w.rec.came(f)
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), end)
}

// cutWay closes the way to a broker until it is ended.
func (l *link) cutWay(how string, n int) (end func()) {
	way := &l.ways[n]
	switch how {
	case LinkMute:
		way.out.close()
		return way.out.reopen
	case LinkDeaf:
		way.in.close()
		return way.in.reopen
	case LinkOff:
		l.refuseTo(n)
		return func() { l.allowTo(n) }
	}
	way.in.close()
	way.out.close()
	return func() { way.in.reopen(); way.out.reopen() }
}

// dice are those of one fault.
func (w *play) dice(f Fault) *rand.Rand {
	return rand.New(rand.NewPCG(w.Seed, 30+uint64(f.At.Duration().Milliseconds())))
}

// lead gives partitions the leaders that choose says; noBroker: they keep theirs.
func (w *play) lead(b *embedded.Broker, what *kmsg.MetadataResponse, choose chooser) (moved int) {
	inOrder(what) // so that the dice fall the same each time
	for _, t := range what.Topics {
		for _, p := range t.Partitions {
			n := int32(choose(*t.Topic, p.Partition, p.Leader))
			if now := b.Leader(*t.Topic, p.Partition); n == noBroker || now == n || now == noBroker {
				continue // as it is, or it is gone
			}
			if b.Lead(*t.Topic, p.Partition, n) == nil {
				moved++
			}
		}
	}
	return moved
}

// chooser is which broker is to lead a partition that another led.
type chooser func(topic string, p, was int32) int

func inOrder(what *kmsg.MetadataResponse) {
	type part = kmsg.MetadataResponseTopicPartition
	slices.SortFunc(what.Topics, func(a, b kmsg.MetadataResponseTopic) int { return strings.Compare(*a.Topic, *b.Topic) })
	for _, t := range what.Topics {
		slices.SortFunc(t.Partitions, func(a, b part) int { return int(a.Partition - b.Partition) })
	}
}

// except picks one of the brokers that are there, and none of those.
func (w *play) except(dice *rand.Rand, not ...int32) int {
	var from []int
	for n := range w.World.Brokers {
		if !slices.Contains(not, int32(n)) && !w.reach.gone(n) {
			from = append(from, n)
		}
	}
	if len(from) == 0 {
		return noBroker
	}
	return from[dice.IntN(len(from))]
}

// moveLeaders gives about half of all partitions another leader.
func (w *play) moveLeaders(f Fault) {
	before, err := w.metadata()
	b := w.broker.up()
	if err != nil || b == nil {
		return
	}
	dice := w.dice(f)
	if f.Key == Stale {
		w.backward(f, dice, &view{leaders: before})
	}
	moved := w.lead(b, before, func(_ string, _, was int32) int {
		if dice.IntN(2) == 0 {
			return noBroker
		}
		return w.except(dice, was)
	})
	w.rec.note("broker", fmt.Sprintf("%d partitions have another leader", moved))
	if f.Key != Stale && moved > 0 {
		w.rec.came(f)
	}
}

// backward has one broker say for a while what it knew before. It took place if it told
// that to anybody.
func (w *play) backward(f Fault, dice *rand.Rand, v *view) {
	n := dice.IntN(w.World.Brokers)
	w.stale.begin(n, v)
	w.rec.note("broker", fmt.Sprintf("%d knows of nothing new", n+1))
	w.laid.lay(f, func() bool { return w.stale.told(v) })
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		w.stale.end(n, v)
		w.rec.note("broker", fmt.Sprintf("%d knows what is new", n+1))
	})
}

// moveCoordinators gives groups and transactional ids other coordinators, until at least
// that of the conductors is another.
func (w *play) moveCoordinators(f Fault) {
	b := w.broker.up()
	if b == nil {
		return
	}
	before := map[string]int32{}
	for _, k := range w.stale.keys() {
		before[k] = b.Coordinator(k)
	}
	if f.Key == Stale {
		w.backward(f, w.dice(f), &view{coordinators: before})
	}
	group := wire.Topics{Prefix: prefix}.ConductorGroup()
	for was := b.Coordinator(group); b.Coordinator(group) == was; {
		b.MoveCoordinators()
	}
	w.rec.note("broker", fmt.Sprintf("groups have other coordinators, conductors broker %d", b.Coordinator(group)+1))
	if f.Key != Stale {
		w.rec.came(f)
	}
}

// nodeAway is one broker that is away while the others go on. What it led has no leader
// until they notice.
func (w *play) nodeAway(f Fault) {
	n := w.brokerOf(f)
	w.rec.came(f)
	w.reach.leave(n)
	w.lasts(f.For, nil)
	w.after(f.By.Duration(), func() { w.leaves(f, n) })
	w.after(f.For.Duration(), func() { w.returns(f, n) })
}

// leaves has the others notice that a broker is away.
func (w *play) leaves(f Fault, n int) {
	before, err := w.metadata()
	b := w.broker.up()
	if err != nil || b == nil || !w.reach.gone(n) || b.Leave(int32(n)) != nil {
		return
	}
	w.lead(b, before, func(_ string, _, was int32) int {
		if was == int32(n) {
			return noBroker // it has another already
		}
		return int(was)
	})
	w.rec.note("broker", fmt.Sprintf("the others lead what broker %d led", n+1))
}

// returns has a broker come back. Of some partitions it becomes the leader.
func (w *play) returns(f Fault, n int) {
	before, err := w.metadata()
	b := w.broker.up()
	if err == nil && b != nil && b.Return(int32(n)) == nil { // else the others never noticed
		dice := w.dice(f)
		w.lead(b, before, func(_ string, _, was int32) int {
			if dice.IntN(3) == 0 {
				return n
			}
			return int(was)
		})
	}
	w.reach.back(n)
	w.rec.note("broker", fmt.Sprintf("%d is back", n+1))
}

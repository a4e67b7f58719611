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
	"github.com/berth-project/berth/pkg/lab/sim/network"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// ofBrokers has something go wrong between processes and brokers.
func (w *play) ofBrokers(p *process, f schedule.Fault) {
	if w.World.Brokers < 2 {
		return
	}
	switch f.Kind {
	case schedule.FaultLink:
		if n := w.brokerOf(f); n != network.NoBroker && p != nil {
			w.cutFrom(p, f, n)
		}
	case schedule.FaultLeaders:
		w.moveLeaders(f)
	case schedule.FaultCoordinators:
		w.moveCoordinators(f)
	case schedule.FaultNode:
		w.nodeAway(f)
	case schedule.FaultDeposed:
		w.depose(f)
	case schedule.FaultParked:
		w.parkAndKill(f)
	case schedule.FaultQuorum:
		w.quorumLost(f)
	case schedule.FaultApart:
		w.brokersApart(f)
	}
}

// brokerOf is which broker a fault is about.
func (w *play) brokerOf(f schedule.Fault) int {
	if n, err := strconv.Atoi(f.Broker); err == nil {
		return n - 1
	}
	topics, b := wire.Topics{Prefix: prefix}, w.broker.up()
	if b == nil {
		return network.NoBroker
	}
	switch f.Broker {
	case schedule.AtCoordinator:
		return int(b.Coordinator(topics.ConductorGroup()))
	case schedule.AtController:
		return w.World.Brokers - 1
	case schedule.AtReports:
		return int(b.Leader(topics.Reports(), 0))
	case schedule.AtHosts:
		return int(b.Leader(topics.Hosts(), 0))
	case schedule.AtCatalog:
		return int(b.Leader(topics.Catalog(), 0))
	case schedule.AtBuilds:
		for _, q := range w.Booted() {
			if n := b.Leader(topics.Build(q), 0); n >= 0 {
				return int(n)
			}
		}
		return network.NoBroker
	case schedule.AtHost:
		h := w.World.Hosts[0].ID
		if p := w.procs[f.Who]; p != nil && p.host != nil {
			h = p.host.ID
		}
		return int(b.Leader(topics.Host(h), 0))
	}
	return int(b.Leader(topics.Instances(), 0))
}

// cutFrom cuts a process from one broker.
func (w *play) cutFrom(p *process, f schedule.Fault, n int) {
	l := p.current()
	if l == nil {
		return
	}
	w.rec.AddNote(p.name, fmt.Sprintf("is cut from broker %d (%s)", n+1, f.Key))
	end := l.CutWay(f.Key, n)
	w.rec.CountFault(f)
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), end)
}

// dice are those of one fault.
func (w *play) dice(f schedule.Fault) *rand.Rand {
	return rand.New(rand.NewPCG(w.Seed, 30+uint64(f.At.Duration().Milliseconds())))
}

// lead gives partitions the leaders that choose says; noBroker: they keep theirs. A fetch that waits at the leader
// before is not answered by kfake, as it is by Kafka. Ours may wait for a minute, and what came meanwhile would be
// judged as if it had been written then: so observers ask again.
func (w *play) lead(b *embedded.Broker, what *kmsg.MetadataResponse, choose chooser) (moved int) {
	inOrder(what) // so that the dice fall the same each time
	for _, t := range what.Topics {
		for _, p := range t.Partitions {
			n := int32(choose(*t.Topic, p.Partition, p.Leader))
			if now := b.Leader(*t.Topic, p.Partition); n == network.NoBroker || now == n || now == network.NoBroker {
				continue // as it is, or it is gone
			}
			if b.Lead(*t.Topic, p.Partition, n) == nil {
				moved++
			}
		}
	}
	if moved > 0 {
		w.observers.Cut()
	}
	return moved
}

// chooser is which broker is to lead a partition that another led.
type chooser func(topic string, p, was int32) int

func inOrder(what *kmsg.MetadataResponse) {
	type part = kmsg.MetadataResponseTopicPartition
	slices.SortFunc(
		what.Topics,
		func(a, b kmsg.MetadataResponseTopic) int { return strings.Compare(*a.Topic, *b.Topic) },
	)
	for _, t := range what.Topics {
		slices.SortFunc(t.Partitions, func(a, b part) int { return int(a.Partition - b.Partition) })
	}
}

// except picks one of the brokers that are there, and none of those.
func (w *play) except(dice *rand.Rand, not ...int32) int {
	var from []int
	for n := range w.World.Brokers {
		if !slices.Contains(not, int32(n)) && !w.reach.Gone(n) {
			from = append(from, n)
		}
	}
	if len(from) == 0 {
		return network.NoBroker
	}
	return from[dice.IntN(len(from))]
}

// moveLeaders gives about half of all partitions another leader.
func (w *play) moveLeaders(f schedule.Fault) {
	before, err := w.metadata()
	b := w.broker.up()
	if err != nil || b == nil {
		return
	}
	dice := w.dice(f)
	if f.Key == schedule.Stale {
		w.backward(f, dice, &view{leaders: before})
	}
	moved := w.lead(b, before, func(_ string, _, was int32) int {
		if dice.IntN(2) == 0 {
			return network.NoBroker
		}
		return w.except(dice, was)
	})
	w.rec.AddNote("broker", fmt.Sprintf("%d partitions have another leader", moved))
	if f.Key != schedule.Stale && moved > 0 {
		w.rec.CountFault(f)
	}
}

// backward has one broker say for a while what it knew before. It took place if it told
// that to anybody.
func (w *play) backward(f schedule.Fault, dice *rand.Rand, v *view) {
	n := dice.IntN(w.World.Brokers)
	w.stale.begin(n, v)
	w.rec.AddNote("broker", fmt.Sprintf("%d knows of nothing new", n+1))
	w.laid.lay(f, func() bool { return w.stale.told(v) })
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		w.stale.end(n, v)
		w.rec.AddNote("broker", fmt.Sprintf("%d knows what is new", n+1))
	})
}

// moveCoordinators gives groups and transactional ids other coordinators, until at least
// that of the conductors is another, which it cannot be while one broker is left of all.
func (w *play) moveCoordinators(f schedule.Fault) {
	b := w.broker.up()
	if b == nil {
		return
	}
	before := map[string]int32{}
	for _, k := range w.stale.keys() {
		before[k] = b.Coordinator(k)
	}
	if f.Key == schedule.Stale {
		w.backward(f, w.dice(f), &view{coordinators: before})
	}
	group := wire.Topics{Prefix: prefix}.ConductorGroup()
	was := b.Coordinator(group)
	for tries := 0; b.Coordinator(group) == was; tries++ {
		if tries == 64 { // with another broker half of them or more change it
			w.rec.AddNote("broker", "is alone, and coordinators stay with it")
			return
		}
		b.MoveCoordinators()
	}
	w.rec.AddNote("broker", fmt.Sprintf("groups have other coordinators, conductors broker %d", b.Coordinator(group)+1))
	if f.Key != schedule.Stale {
		w.rec.CountFault(f)
	}
}

// nodeAway is one broker that is away while the others go on. What it led has no leader
// until they notice.
func (w *play) nodeAway(f schedule.Fault) {
	n := w.brokerOf(f)
	w.rec.CountFault(f)
	w.reach.Leave(n)
	w.lasts(f.For, nil)
	w.after(f.By.Duration(), func() { w.leaves(f, n) })
	w.after(f.For.Duration(), func() { w.returns(f, n) })
}

// leaves has the others notice that a broker is away.
func (w *play) leaves(f schedule.Fault, n int) {
	before, err := w.metadata()
	b := w.broker.up()
	if err != nil || b == nil || !w.reach.Gone(n) || b.Leave(int32(n)) != nil {
		return
	}
	w.lead(b, before, func(_ string, _, was int32) int {
		if was == int32(n) {
			return network.NoBroker // it has another already
		}
		return int(was)
	})
	w.rec.AddNote("broker", fmt.Sprintf("the others lead what broker %d led", n+1))
}

// returns has a broker come back. Of some partitions it becomes the leader.
func (w *play) returns(f schedule.Fault, n int) {
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
	w.reach.Back(n)
	w.rec.AddNote("broker", fmt.Sprintf("%d is back", n+1))
}

// SPDX-License-Identifier: Apache-2.0

package size

import "time"

// input is what a conductor reads.
type input struct {
	is    report
	host  int32
	about int32
}

type report uint8

const (
	boot report = iota
	claim
	done // started
)

// conductor decides for its partitions, one turn after the other.
type conductor struct {
	busy     bool
	requests line[input]
	reports  line[input]
	hurry    int   // reports that somebody waits for
	patient  int64 // when the first of the others came
	alarm    int64 // when it looks at them
	turn     []input
	spent    int64 // in turns
	began    int64
}

func (w *world) wakeAll() {
	for c := range w.conductors {
		w.turn(c)
	}
}

// deliver gives a conductor a report.
func (w *world) deliver(in input) {
	c := w.partition(in.about) % w.o.Conductors
	x := &w.conductors[c]
	if in.is == claim {
		x.hurry++
	}
	if x.reports.len() == 0 {
		x.patient = w.now
	}
	x.reports.push(in)
	w.turn(c)
}

// turn begins one, if there is something to decide.
func (w *world) turn(c int) {
	x := &w.conductors[c]
	if x.busy || x.requests.len()+x.reports.len() == 0 {
		return
	}
	if until := x.patient + int64(w.o.Patience); w.o.Mode == Berth && x.requests.len() == 0 && x.hurry == 0 &&
		x.reports.len() < w.o.Turn &&
		w.now < until {
		if x.alarm < until {
			x.alarm = until
			w.agenda.add(until, turn, int32(c), 0)
		}
		return
	}
	x.busy, x.began, x.turn = true, w.now, x.turn[:0]
	for range min(w.o.Turn, x.requests.len()) {
		x.turn = append(x.turn, x.requests.pop())
	}
	for range min(w.o.Turn, x.reports.len()) {
		in := x.reports.pop()
		if in.is == claim {
			x.hurry--
		}
		x.turn = append(x.turn, in)
	}
	x.patient = w.now
	read := w.each(c, forTurn, func(_, records int) float64 { return float64(w.o.Costs.Record) * float64(records) })
	think := float64(w.o.Costs.Decide) * float64(len(x.turn))
	if w.o.Shared {
		read = max(read, w.brokers[0].do(w.now, think))
	} else {
		read = max(read, w.machines[c].do(w.now, think)) // on a processor of its own
	}
	w.agenda.add(read, decided, int32(c), 0)
}

// each sends a request to every broker that leads a partition of the turn, and says
// when all are answered.
func (w *world) each(c int, for_ what, more func(partitions, records int) float64) int64 {
	records := make([]int, w.o.Partitions)
	for _, in := range w.conductors[c].turn {
		records[w.partition(in.about)]++
	}
	last := w.now
	for b := range w.brokers {
		partitions, n := 0, 0
		for p := b; p < w.o.Partitions; p += w.o.Brokers {
			if records[p] > 0 {
				partitions, n = partitions+1, n+records[p]
			}
		}
		if n > 0 {
			last = max(last, w.ask(for_, b, more(partitions, n)))
			if !w.o.Shared {
				w.machines[c].do(w.now, float64(w.o.Costs.Client))
			}
		}
	}
	return last
}

func (w *world) decided(c int) {
	begun := int64(0)
	if x := w.o.Costs.Transaction; x > 0 {
		begun = w.brokers[0].do(w.now, w.rand.spread(x))
	}
	w.agenda.add(max(begun, w.each(c, forWrite, w.writes)), written, int32(c), 0)
}

// written: what was decided holds, and what follows from it is published.
func (w *world) written(c int) {
	x := &w.conductors[c]
	x.busy, x.spent = false, x.spent+w.now-x.began
	w.observe(c)
	for _, in := range x.turn {
		i := &w.instances[in.about]
		switch in.is {
		case boot:
			q := &w.queues[i.queue]
			i.queued, i.granted = true, w.now
			q.depth++
			q.came++
			w.advisor.MarkDirty(q.name)
			q.order.push(in.about)
			w.publish(c, int(q.broker), item{buildOf, i.queue, in.about})
		case claim:
			w.queues[i.queue].depth--
			w.advisor.MarkDirty(w.queues[i.queue].name)
			w.grant(in.host, in.about)
			w.publish(c, int(in.host)%w.o.Brokers, item{grantOf, in.host, in.about})
		case done:
			w.active++
		}
	}
	w.turn(c)
}

// grant gives an instance to a host. One that has it already shows that the model is
// wrong: a record is taken once.
func (w *world) grant(h, i int32) {
	x := &w.instances[i]
	if x.host >= 0 {
		w.doubled++
		return
	}
	x.host, x.granted, w.last = h, w.now, w.now
	w.granted++
	if w.granted == len(w.instances) && w.o.Rate == 0 {
		w.measure()
	}
}

// observe is the API node's reading of what was written, every 20 ms at most.
func (w *world) observe(c int) {
	pace := int64(20 * time.Millisecond)
	if w.o.Mode == Floor {
		pace = 0
	}
	for _, in := range w.conductors[c].turn {
		if b := w.leader(in.about); w.now-w.seen[b] >= pace && w.seen[b] != w.now {
			w.seen[b] = w.now
			w.ask(forRead, b, 0)
			if w.o.Mode == Berth {
				w.ask(forRead, b, 0)
			}
		}
	}
}

// item is a record to publish.
type item struct {
	is    effect
	to    int32 // queue or host
	about int32
}

type effect uint8

const (
	requestOf effect = iota
	buildOf
	grantOf
)

// publisher sends to one broker, one request at a time; what comes meanwhile goes
// together.
type publisher struct {
	busy             bool
	gathered, flying []item
}

// together is how many records go in one request at most.
const together = 1000

func (w *world) publish(source, broker int, it item) {
	p := source*w.o.Brokers + broker
	w.publishers[p].gathered = append(w.publishers[p].gathered, it)
	if !w.publishers[p].busy {
		w.publishers[p].busy = true
		w.agenda.add(w.now, published, int32(p), 0) // what else is published now goes along
	}
}

// published: what flew has arrived, and the next goes.
func (w *world) published(p int32) {
	x := &w.publishers[p]
	arrived := x.flying
	n := min(together, len(x.gathered))
	x.flying = append([]item(nil), x.gathered[:n]...)
	x.gathered = append(x.gathered[:0], x.gathered[n:]...)
	if x.busy = n > 0; x.busy {
		w.send(p)
	}
	for _, it := range arrived {
		switch it.is {
		case requestOf:
			w.instances[it.about].accepted = w.now
			c := w.partition(it.about) % w.o.Conductors
			w.conductors[c].requests.push(input{boot, -1, it.about})
			w.turn(c)
		case buildOf:
			w.enqueue(it.to, it.about)
		case grantOf:
			w.agenda.add(w.ask(forStream, int(it.to)%w.o.Brokers, 0), granted, it.to, it.about)
		}
	}
}

func (w *world) send(p int32) {
	x, source, broker := &w.publishers[p], int(p)/w.o.Brokers, int(p)%w.o.Brokers
	for_, partitions, more := forEffects, len(x.flying), 0.0
	if source == w.o.Conductors {
		for_, partitions = forRequest, min(len(x.flying), max(1, w.o.Partitions/w.o.Brokers))
	}
	w.sent++
	for _, it := range x.flying {
		if it.is == buildOf {
			more += w.wakes(it.to, w.sent)
		}
	}
	w.agenda.add(w.ask(for_, broker, more+w.writes(partitions, len(x.flying))), published, p, 0)
}

// SPDX-License-Identifier: Apache-2.0

package size

// kind is what happens.
type kind uint8

const (
	arrive     kind = iota // the next requests are due
	turn                   // a: conductor; it may begin a turn
	decided                // a: conductor; it has read and decided
	written                // a: conductor; what it decided is in the log
	published              // a: publisher; a request of it was answered
	asked                  // a: fetch; the broker has read what it lists
	expire                 // a: fetch; nothing came
	taken                  // a: host, b: instance; the record is at the host
	prepared               // a: host, b: instance
	claimed                // a: host, b: instance; the claim is in the log
	granted                // a: host, b: instance; the grant is at the host
	launched               // a: host, b: instance
	started                // a: host, b: instance; the report is in the log
	readAdvice             // a: host; it looks at advice
	beacon                 // a: host; it says how it is
	standing               // what goes on whatever happens
	tick                   // the queue manager may tell something
	ended                  // a: host, b: instance; the machine is deleted
	told                   // a: host, b: in what it is told; it reads what it is told of savings
	spend                  // a: host; its saving may be over
	steady                 // how full hosts are is looked at
)

// event is something that happens at a time, in nanoseconds from the first request.
type event struct {
	at   int64
	seq  uint64 // what was foreseen first happens first
	a, b int32
	kind kind
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// agenda is what will happen, the next first.
type agenda struct {
	events []event
	seq    uint64
}

func (g *agenda) add(at int64, k kind, a, b int32) {
	g.seq++
	g.events = append(g.events, event{at: at, seq: g.seq, a: a, b: b, kind: k})
	for i := len(g.events) - 1; i > 0; {
		up := (i - 1) / 4
		if !g.events[i].before(g.events[up]) {
			break
		}
		g.events[i], g.events[up] = g.events[up], g.events[i]
		i = up
	}
}

// next takes the first; there is one.
func (g *agenda) next() event {
	first, last := g.events[0], len(g.events)-1
	g.events[0] = g.events[last]
	g.events = g.events[:last]
	for i := 0; ; {
		best := i
		for down := 4*i + 1; down <= 4*i+4 && down < last; down++ {
			if g.events[down].before(g.events[best]) {
				best = down
			}
		}
		if best == i {
			return first
		}
		g.events[i], g.events[best] = g.events[best], g.events[i]
		i = best
	}
}

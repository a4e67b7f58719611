// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// NoBroker is where a connection leads to another process.
const NoBroker = -1

// way is how a process reaches one broker. The other brokers have ways of their own.
type way struct {
	in, out gate
	off     int // guarded by the link's mu
}

// open is the way of a connection that leads to no broker: nothing happens to it.
var open way

func (c *Conn) way() *way {
	if c.broker == NoBroker {
		return &open
	}
	return &c.link.ways[c.broker]
}

// pass waits until both gates are open.
func (c *Conn) pass(d *deadline, all, one *gate) error {
	for {
		if err := d.wait(all, c.link.Dead, c.closed); err != nil {
			return err
		}
		if err := d.wait(one, c.link.Dead, c.closed); err != nil {
			return err
		}
		if all.opens() == nil {
			return nil
		}
	}
}

// number is a broker's number.
func number(address string) int {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return NoBroker
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < schedule.FirstPort || port >= schedule.FirstPort+schedule.MostBrokers {
		return NoBroker
	}
	return port - schedule.FirstPort
}

// reaches waits until a connection to a broker could be opened, for as long as ctx says:
// that takes a message each way.
func (l *Link) reaches(ctx context.Context, n int) bool {
	if n == NoBroker {
		return true
	}
	var never deadline
	for _, g := range []*gate{&l.ways[n].out, &l.ways[n].in} {
		if never.wait(g, l.Dead, ctx.Done()) != nil {
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closedTo(n)
}

// closedTo says whether a broker refuses connections of the process. It is called with mu
// held.
func (l *Link) closedTo(n int) bool {
	return n != NoBroker && (l.ways[n].off > 0 || l.reach != nil && l.reach.Gone(n))
}

// cutTo breaks the connections to a broker.
func (l *Link) cutTo(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutToLocked(n)
}

func (l *Link) cutToLocked(n int) {
	for c := range l.conns {
		if c.broker == n {
			_ = c.end()
			delete(l.conns, c)
		}
	}
}

// refuseTo breaks the connections to a broker and lets none be made until allowTo.
func (l *Link) refuseTo(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[n].off++
	l.cutToLocked(n)
}

func (l *Link) allowTo(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[n].off--
}

// Reach is which brokers are there, for everybody.
type Reach struct {
	mu    sync.Mutex
	away  [schedule.MostBrokers]bool
	links []*Link
}

func (r *Reach) Add(l *Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.reach = r
	r.links = append(r.links, l)
}

func (r *Reach) Gone(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away[n]
}

// Leave breaks all connections to a broker; none can be opened until back.
func (r *Reach) Leave(n int) {
	r.mu.Lock()
	r.away[n] = true
	links := r.links
	r.mu.Unlock()
	for _, l := range links {
		l.cutTo(n)
	}
}

func (r *Reach) Back(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away[n] = false
}

// CutWay closes the way to a broker until it is ended.
func (l *Link) CutWay(how string, n int) (end func()) {
	way := &l.ways[n]
	switch how {
	case schedule.LinkMute:
		way.out.Close()
		return way.out.Reopen
	case schedule.LinkDeaf:
		way.in.Close()
		return way.in.Reopen
	case schedule.LinkOff:
		l.refuseTo(n)
		return func() { l.allowTo(n) }
	}
	way.in.Close()
	way.out.Close()
	return func() { way.in.Reopen(); way.out.Reopen() }
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// noBroker is where a connection leads to another process.
const noBroker = -1

// way is how a process reaches one broker. The other brokers have ways of their own.
type way struct {
	in, out gate
	off     int // guarded by the link's mu
}

// open is the way of a connection that leads to no broker: nothing happens to it.
var open way

func (c *conn) way() *way {
	if c.broker == noBroker {
		return &open
	}
	return &c.link.ways[c.broker]
}

// pass waits until both gates are open.
func (c *conn) pass(d *deadline, all, one *gate) error {
	for {
		if err := d.wait(all, c.link.dead, c.closed); err != nil {
			return err
		}
		if err := d.wait(one, c.link.dead, c.closed); err != nil {
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
		return noBroker
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < firstPort || port >= firstPort+mostBrokers {
		return noBroker
	}
	return port - firstPort
}

// seeds are the addresses of all brokers.
func (w World) seeds() (list []string) {
	for i := range max(w.Brokers, 1) {
		list = append(list, fmt.Sprintf("localhost:%d", firstPort+i))
	}
	return list
}

// reaches waits until a connection to a broker could be opened, for as long as ctx says:
// that takes a message each way.
func (l *link) reaches(ctx context.Context, n int) bool {
	if n == noBroker {
		return true
	}
	var never deadline
	for _, g := range []*gate{&l.ways[n].out, &l.ways[n].in} {
		if never.wait(g, l.dead, ctx.Done()) != nil {
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closedTo(n)
}

// closedTo says whether a broker refuses connections of the process. It is called with mu
// held.
func (l *link) closedTo(n int) bool {
	return n != noBroker && (l.ways[n].off > 0 || l.reach != nil && l.reach.gone(n))
}

// cutTo breaks the connections to a broker.
func (l *link) cutTo(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutToLocked(n)
}

func (l *link) cutToLocked(n int) {
	for c := range l.conns {
		if c.broker == n {
			_ = c.end()
			delete(l.conns, c)
		}
	}
}

// refuseTo breaks the connections to a broker and lets none be made until allowTo.
func (l *link) refuseTo(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[n].off++
	l.cutToLocked(n)
}

func (l *link) allowTo(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[n].off--
}

// reach is which brokers are there, for everybody.
type reach struct {
	mu    sync.Mutex
	away  [mostBrokers]bool
	links []*link
}

func (r *reach) add(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.reach = r
	r.links = append(r.links, l)
}

func (r *reach) gone(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away[n]
}

// leave breaks all connections to a broker; none can be opened until back.
func (r *reach) leave(n int) {
	r.mu.Lock()
	r.away[n] = true
	links := r.links
	r.mu.Unlock()
	for _, l := range links {
		l.cutTo(n)
	}
}

func (r *reach) back(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away[n] = false
}

// joined remembers which member of its group a process is: its heartbeats say so.
func (c *conn) joined(kind string, b []byte) {
	if kind != "Heartbeat" || len(b) < 14 {
		return
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = int16(binary.BigEndian.Uint16(b[6:]))
	head := 14
	if n := int16(binary.BigEndian.Uint16(b[12:])); n > 0 {
		head += int(n) // the client's name
	}
	if req.IsFlexible() {
		head++ // no tags
	}
	if head < len(b) && req.ReadFrom(b[head:]) == nil {
		c.link.member.Store(&req.MemberID)
	}
}

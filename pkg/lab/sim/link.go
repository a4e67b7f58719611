// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/pkg/embedded"
)

// errDead is what a process hears that has ended and does not know it.
var errDead = errors.New("the process has ended")

// link is all that one life of a process has to do with the rest: when it is
// cut, nothing gets out any more, whatever the process still does.
type link struct {
	net     *embedded.Network
	in, out gate
	group   gate // to what keeps the process in its group
	ways    [mostBrokers]way
	reach   *reach                 // which brokers there are for anybody; nil: all
	member  atomic.Pointer[string] // of a group, as it last said
	wrote   atomic.Int64           // when it last wrote a record
	fetched func()                 // called when it asks for work; nil: nobody counts
	life    context.Context        // ends when it is killed
	end     context.CancelFunc
	dead    <-chan struct{} // of life

	mu        sync.Mutex
	ended     bool // life has
	off       int
	latency   time.Duration // of a message, at most
	by        time.Duration // and so much longer
	random    *rand.Rand
	conns     map[*conn]bool
	listeners []net.Listener
	traps     []*trap
}

// trap springs when a process comes to a point for the nth time.
type trap struct {
	point  string
	nth    int
	spring func(c *conn) // c is the connection, at those points that have one
	sprung atomic.Bool   // and what it does was done
}

func newLink(n *embedded.Network, latency time.Duration, seed uint64) *link {
	l := &link{net: n, latency: latency, random: rand.New(rand.NewPCG(seed, 7)), conns: map[*conn]bool{}}
	l.life, l.end = context.WithCancel(context.Background())
	l.dead = l.life.Done()
	return l
}

// kill ends all that the process has to do with others. It never blocks.
func (l *link) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.end()
	l.traps = nil
	l.cutLocked()
	for _, x := range l.listeners {
		_ = x.Close()
	}
}

// cut breaks all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutLocked()
}

func (l *link) cutLocked() {
	for c := range l.conns {
		_ = c.end()
	}
	clear(l.conns)
}

// refuse breaks all connections and lets none be made until allow.
func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off++
	l.cutLocked()
}

func (l *link) allow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off--
}

func (l *link) slower(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by += by
}

// pause holds up everything in both directions.
func (l *link) pause()  { l.in.close(); l.out.close() }
func (l *link) resume() { l.in.reopen(); l.out.reopen() }

// pass waits while the process is paused. It is for what is no connection.
func (l *link) pass() error {
	var never deadline
	if err := never.wait(&l.out, l.dead); err != nil {
		return err
	}
	select {
	case <-l.dead:
		return errDead
	default:
		return nil
	}
}

// trap arms a trap.
func (l *link) trap(t *trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traps = append(l.traps, t)
}

// disarm takes a trap away that has not sprung.
func (l *link) disarm(t *trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, x := range l.traps {
		if x == t {
			l.traps = append(l.traps[:i:i], l.traps[i+1:]...)
			return
		}
	}
}

// at is called when the process comes to a point.
func (l *link) at(point string, c *conn) {
	l.mu.Lock()
	var sprung []*trap
	rest := l.traps[:0:0]
	for _, t := range l.traps {
		if t.point == point {
			t.nth--
		}
		if t.nth <= 0 {
			sprung = append(sprung, t)
		} else {
			rest = append(rest, t)
		}
	}
	l.traps = rest
	l.mu.Unlock()
	for _, t := range sprung {
		t.spring(c)
		t.sprung.Store(true)
	}
}

// delay is how long the next message takes.
func (l *link) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.by
	if l.latency > 0 {
		d += time.Duration(l.random.Int64N(int64(l.latency)))
	}
	return d
}

// dialTime is how long it is tried to open a connection, as TCP would.
const dialTime = 10 * time.Second

// Dial connects the process to another.
func (l *link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	refused := &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	var never deadline
	if err := never.wait(&l.out, l.dead, ctx.Done()); err != nil {
		return nil, refused
	}
	l.mu.Lock()
	off := l.ended || l.off > 0
	l.mu.Unlock()
	n := number(address)
	if off || !l.reaches(ctx, n) {
		return nil, refused
	}
	c, err := l.net.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return l.wrap(c, n)
}

// Listen opens a port of the process.
func (l *link) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	inner, err := l.net.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = inner.Close()
		return nil, errDead
	}
	l.listeners = append(l.listeners, inner)
	return &listener{inner, l}, nil
}

type listener struct {
	net.Listener
	link *link
}

func (x *listener) Accept() (net.Conn, error) {
	for {
		c, err := x.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if wrapped, err := x.link.wrap(c, noBroker); err == nil {
			return wrapped, nil
		}
	}
}

func (l *link) wrap(inner net.Conn, broker int) (net.Conn, error) {
	c := &conn{Conn: inner, link: l, broker: broker, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.off > 0 || l.closedTo(broker) {
		_ = inner.Close()
		return nil, io.ErrClosedPipe
	}
	l.conns[c] = true
	return c, nil
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

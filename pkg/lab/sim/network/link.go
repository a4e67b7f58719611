// SPDX-License-Identifier: Apache-2.0

package network

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
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// ErrDead is what a process hears that has ended and does not know it.
var ErrDead = errors.New("the process has ended")

// Link is all that one life of a process has to do with the rest: when it is
// cut, nothing gets out any more, whatever the process still does.
type Link struct {
	net     *embedded.Network
	In, Out gate
	Group   gate // to what keeps the process in its group
	ways    [schedule.MostBrokers]way
	reach   *Reach                 // which brokers there are for anybody; nil: all
	Member  atomic.Pointer[string] // of a group, as it last said
	joins   atomic.Pointer[join]   // the last time that it joined one
	Wrote   atomic.Int64           // when it last wrote a record
	Fetched func()                 // called when it asks for work; nil: nobody counts
	Life    context.Context        // ends when it is killed
	End     context.CancelFunc
	Dead    <-chan struct{} // of life

	mu        sync.Mutex
	ended     bool // life has
	off       int
	latency   time.Duration // of a message, at most
	by        time.Duration // and so much longer
	random    *rand.Rand
	conns     map[*Conn]bool
	listeners []net.Listener
	traps     []*Trap
}

// Trap springs when a process comes to a point for the nth time.
type Trap struct {
	Point  string
	Nth    int
	Spring func(c *Conn) // c is the connection, at those points that have one
	Sprung atomic.Bool   // and what it does was done
}

func NewLink(n *embedded.Network, latency time.Duration, seed uint64) *Link {
	l := &Link{net: n, latency: latency, random: rand.New(rand.NewPCG(seed, 7)), conns: map[*Conn]bool{}}
	l.Life, l.End = context.WithCancel(context.Background())
	l.Dead = l.Life.Done()
	return l
}

// Kill ends all that the process has to do with others. It never blocks.
func (l *Link) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.End()
	l.traps = nil
	l.cutLocked()
	for _, x := range l.listeners {
		_ = x.Close()
	}
}

// Cut breaks all connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutLocked()
}

func (l *Link) cutLocked() {
	for c := range l.conns {
		_ = c.end()
	}
	clear(l.conns)
}

// Refuse breaks all connections and lets none be made until allow.
func (l *Link) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off++
	l.cutLocked()
}

func (l *Link) Allow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off--
}

func (l *Link) Slower(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by += by
}

// Pause holds up everything in both directions.
func (l *Link) Pause() { l.In.Close(); l.Out.Close() }

func (l *Link) Resume() { l.In.Reopen(); l.Out.Reopen() }

// Pass waits while the process is paused. It is for what is no connection.
func (l *Link) Pass() error {
	var never deadline
	if err := never.wait(&l.Out, l.Dead); err != nil {
		return err
	}
	select {
	case <-l.Dead:
		return ErrDead
	default:
		return nil
	}
}

// Trap arms a trap.
func (l *Link) Trap(t *Trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traps = append(l.traps, t)
}

// Disarm takes a trap away that has not sprung.
func (l *Link) Disarm(t *Trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, x := range l.traps {
		if x == t {
			l.traps = append(l.traps[:i:i], l.traps[i+1:]...)
			return
		}
	}
}

// At is called when the process comes to a point.
func (l *Link) At(point string, c *Conn) {
	l.mu.Lock()
	var sprung []*Trap
	rest := l.traps[:0:0]
	for _, t := range l.traps {
		if t.Point == point {
			t.Nth--
		}
		if t.Nth <= 0 {
			sprung = append(sprung, t)
		} else {
			rest = append(rest, t)
		}
	}
	l.traps = rest
	l.mu.Unlock()
	for _, t := range sprung {
		t.Spring(c)
		t.Sprung.Store(true)
	}
}

// delay is how long the next message takes.
func (l *Link) delay() time.Duration {
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
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	refused := &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	var never deadline
	if err := never.wait(&l.Out, l.Dead, ctx.Done()); err != nil {
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
	return l.wrap(c, n, address)
}

// Listen opens a port of the process.
func (l *Link) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	inner, err := l.net.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = inner.Close()
		return nil, ErrDead
	}
	l.listeners = append(l.listeners, inner)
	return &listener{inner, l}, nil
}

type listener struct {
	net.Listener
	link *Link
}

func (x *listener) Accept() (net.Conn, error) {
	for {
		c, err := x.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if wrapped, err := x.link.wrap(c, NoBroker, ""); err == nil {
			return wrapped, nil
		}
	}
}

func (l *Link) wrap(inner net.Conn, broker int, address string) (net.Conn, error) {
	c := &Conn{Conn: inner, link: l, broker: broker, address: address, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.off > 0 || l.closedTo(broker) {
		_ = inner.Close()
		return nil, io.ErrClosedPipe
	}
	l.conns[c] = true
	return c, nil
}

func (l *Link) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

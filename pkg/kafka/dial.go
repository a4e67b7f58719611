// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/service"
)

// dialer opens connections to brokers.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout bounds how long plain TCP tries.
const dialTimeout = 10 * time.Second

// refusedPause is the least that a refused connection takes. kgo does not wait in
// some places before it tries again: a producer that has no id yet, with one
// broker to ask, would spin for as long as that is gone.
const refusedPause = 50 * time.Millisecond

// connections opens those of one client. Each ends with the context it is opened under, as long as the broker has not
// said a word. kgo first asks on every new connection what the broker can do, and listens for the answer to nobody
// else: a frozen broker would hold up, for 30 s, a caller that has given up.
//
// Where opening takes longer than callers wait, none would ever be made: each caller begins anew. So the next one to an
// address is given longer than its caller waits, and is there for later callers. Meanwhile the client sends that broker
// nothing else.
type connections struct {
	dial   dialer
	client atomic.Pointer[kgo.Client] // nothing lasts longer than this

	mu   sync.Mutex
	late map[string]int // how many in a row were late, by address
}

func newConnections(dial dialer) *connections {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return &connections{dial: dial, late: map[string]int{}}
}

// OnNewClient takes note of the client that these connections are of.
func (c *connections) OnNewClient(cl *kgo.Client) { c.client.Store(cl) }

func (c *connections) open(ctx context.Context, network, address string) (net.Conn, error) {
	if err := gaveUp(ctx); err != nil {
		return nil, err // kgo opens them one after another, and this caller gave up meanwhile
	}
	opening, opened := c.lasting(ctx, c.allowance(address))
	conn, err := c.dial(opening, network, address)
	if err != nil {
		c.wasLate(ctx, address)
		opened()
		err = cmp.Or(gaveUp(ctx), err)
		service.Sleep(ctx, refusedPause) // its end is no other reason
		return nil, err
	}
	young := &youngConn{Conn: conn, opened: ctx}
	stop := context.AfterFunc(opening, func() {
		c.wasLate(ctx, address)
		young.cut.Store(true)
		_ = conn.Close() // it is of no use to anybody
	})
	young.release = func() bool {
		defer opened()
		return stop()
	}
	young.made = func() { c.wasMade(ctx, address) }
	return young, nil
}

// gaveUp is why a caller waits no longer; nil: it does. A dialer may find a deadline over before its context does.
func gaveUp(ctx context.Context) error {
	if by, is := ctx.Deadline(); is && !time.Now().Before(by) && ctx.Err() == nil {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// lasting is a context that ends so long after the deadline of ctx; at once if ctx is cancelled, the client ends, or
// the function is called.
func (c *connections) lasting(ctx context.Context, longer time.Duration) (context.Context, context.CancelFunc) {
	if longer == 0 {
		return context.WithCancel(ctx)
	}
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	stops := []func() bool{context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			service.Sleep(last, longer)
		}
		end()
	})}
	if cl := c.client.Load(); cl != nil {
		stops = append(stops, context.AfterFunc(cl.Context(), end))
	}
	return last, func() {
		for _, stop := range stops {
			stop()
		}
		end()
	}
}

// wasLate counts a connection that was not made before its caller's deadline. One that was called off says nothing
// about the broker.
func (c *connections) wasLate(ctx context.Context, address string) {
	if !errors.Is(gaveUp(ctx), context.DeadlineExceeded) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late[address]++
}

// wasMade ends the count, if the connection was made while its caller waited.
func (c *connections) wasMade(ctx context.Context, address string) {
	if gaveUp(ctx) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.late, address)
}

// allowance is how much longer than its caller waits the next connection may take: as long as a question may after one
// that was late, twice as long after more. Where a question is answered in time, that is enough for a connection.
func (c *connections) allowance(address string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return pace.AskTimeout * time.Duration(min(c.late[address], 2))
}

// youngConn is a connection on which the broker may not have spoken yet. One goroutine at a time reads; until the
// broker has spoken, only the goroutine that opened it uses it.
type youngConn struct {
	net.Conn
	opened  context.Context // what it was opened under
	release func() bool     // lets it outlive that; false: it ended before
	made    func()          // takes note that the broker has spoken
	spoke   atomic.Bool     // the broker has said something
	cut     atomic.Bool     // it ended with what it was opened under
}

func (c *youngConn) Close() error {
	c.release() // nothing is left to cut
	return c.Conn.Close()
}

func (c *youngConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
		if c.release() {
			c.made()
		}
	}
	return n, c.why(err)
}

func (c *youngConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.why(err)
}

// why is what really ended a young connection: the goroutine that opened it gave up, and is told so. Others, which
// may use it later, are told of a closed connection and try again.
func (c *youngConn) why(err error) error {
	if err != nil && c.cut.Load() && !c.spoke.Load() {
		return cmp.Or(c.opened.Err(), err)
	}
	return err
}

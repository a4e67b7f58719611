// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"net"
	"sync/atomic"
	"time"

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

// dial is how this client reaches brokers.
func (c Config) dial() dialer {
	if c.Dial == nil {
		return impatient((&net.Dialer{Timeout: dialTimeout}).DialContext)
	}
	return impatient(c.Dial)
}

// impatient makes a connection end with the context it was opened under, as long as the broker has not said a word.
// kgo first asks on every new connection what the broker can do, and listens for the answer to nobody else: a frozen
// broker would hold up a caller that has given up, and the end of the process, for 30 s.
func impatient(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			service.Sleep(ctx, refusedPause) // its end is no other reason
			return nil, err
		}
		young := &youngConn{Conn: c, opened: ctx}
		young.grown = context.AfterFunc(ctx, func() {
			young.cut.Store(true)
			_ = c.Close() // it is of no use to anybody
		})
		return young, nil
	}
}

// youngConn is a connection on which the broker may not have spoken yet. One goroutine at a time reads; until the
// broker has spoken, only the goroutine that opened it uses it.
type youngConn struct {
	net.Conn
	opened context.Context // what it was opened under
	grown  func() bool     // lets it outlive that
	spoke  atomic.Bool     // the broker has said something
	cut    atomic.Bool     // it ended with what it was opened under
}

func (c *youngConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
		c.grown()
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
		return c.opened.Err()
	}
	return err
}

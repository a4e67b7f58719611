package kafka

import (
	"context"
	"net"
	"time"
)

// dialer opens connections to brokers.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout bounds how long plain TCP tries.
const dialTimeout = 10 * time.Second

// dial is how this client reaches brokers.
func (c Config) dial() dialer {
	if c.Dial == nil {
		return impatient((&net.Dialer{Timeout: dialTimeout}).DialContext)
	}
	return impatient(c.Dial)
}

// impatient makes a connection end with the context it was opened under, as long
// as the broker has not said a word. kgo first asks on every new connection what
// the broker can do, and listens for the answer to nobody else: a frozen broker
// would hold up whoever has given up, and the end of the process, for 30 s.
func impatient(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &youngConn{Conn: c, grown: context.AfterFunc(ctx, func() { _ = c.Close() })}, nil // it is of no use to anybody
	}
}

// youngConn is a connection on which the broker may not have spoken yet. One
// goroutine at a time reads.
type youngConn struct {
	net.Conn
	grown func() bool // lets the connection outlive its context; nil: done
}

func (c *youngConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.grown != nil {
		c.grown()
		c.grown = nil
	}
	return n, err
}

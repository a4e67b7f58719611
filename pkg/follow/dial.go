// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"net"
	"sync"
)

// Conns knows the open connections of a client that cannot be told to stop
// waiting for an answer: closing them is what it understands. The zero value is
// ready.
type Conns struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// Keep knows a connection until it is closed. After Close it closes it.
func (c *Conns) Keep(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := &kept{Conn: conn, of: c}
	if c.closed {
		_ = conn.Close() // its user sees the connection fail
		return kept
	}
	if c.open == nil {
		c.open = map[net.Conn]bool{}
	}
	c.open[conn] = true
	return kept
}

// Close closes what is open, and whatever Keep is given from now on.
func (c *Conns) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close() // its user sees the connection fail
	}
	c.open = nil
}

type kept struct {
	net.Conn
	of *Conns
}

func (k *kept) Close() error {
	k.of.mu.Lock()
	delete(k.of.open, k.Conn)
	k.of.mu.Unlock()
	return k.Conn.Close()
}

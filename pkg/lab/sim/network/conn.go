// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection of a process.
type Conn struct {
	net.Conn
	link    *Link
	broker  int    // the broker it leads to, or noBroker
	address string // of that; empty: it leads to another process
	readBy  deadline
	writeBy deadline
	Lost    atomic.Bool // the next answer is lost, and the connection with it
	owed    atomic.Bool // the broker has yet to answer how a group goes on

	held   []byte // read, and not yet let in; only Read touches it
	once   sync.Once
	closed chan struct{}
	leave  sync.Once
	left   atomic.Bool
}

// lingers is how long the broker may believe in a connection that nobody holds.
const lingers = 2 * time.Minute

// end ends the connection. The embedded broker never puts a member out of a group
// whose connection broke before it could answer how the group goes on, so there
// the end comes unannounced, as from a machine without power.
func (c *Conn) end() (err error) {
	c.leave.Do(func() {
		c.left.Store(true)
		if !c.owed.Load() {
			err = c.Conn.Close()
			return
		}
		err = c.Conn.SetDeadline(time.Now()) // a Read that still waits ends
		go func() {
			_ = c.Conn.SetDeadline(time.Now().Add(lingers))
			if _, err := c.Conn.Read(make([]byte, 1)); err == nil {
				c.answered()
			}
			_ = c.Conn.Close() // no caller is left for the error
		}()
	})
	return err
}

// Read lets in what has come, once it may get in.
func (c *Conn) Read(b []byte) (int, error) {
	if len(c.held) == 0 {
		n, err := c.Conn.Read(b)
		switch {
		case c.left.Load():
			return 0, net.ErrClosed
		case err != nil || n == 0:
			return n, err
		}
		c.answered()
		if c.Lost.Load() {
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		if c.link.In.opens() == nil && c.way().in.opens() == nil {
			return n, nil
		}
		c.held = append([]byte(nil), b[:n]...)
	}
	if err := c.pass(&c.readBy, &c.link.In, &c.way().in); err != nil {
		return 0, err
	}
	n := copy(b, c.held)
	c.held = c.held[n:]
	return n, nil
}

// Write lets something out, which takes its time.
func (c *Conn) Write(b []byte) (int, error) {
	kind := c.request(b)
	if kind != "" {
		c.link.At("send:"+kind, c)
	}
	if d := c.link.delay(); d > 0 {
		if err := c.sleep(d); err != nil {
			return 0, err
		}
	}
	if err := c.pass(&c.writeBy, &c.link.Out, &c.way().out); err != nil {
		return 0, err
	}
	c.beats(kind, b)
	if err := c.regroup(kind); err != nil {
		return 0, err
	}
	if c.left.Load() {
		return 0, net.ErrClosed
	}
	c.regroups(kind, b)
	n, err := c.Conn.Write(b)
	if kind != "" && err == nil {
		c.link.At("sent:"+kind, c)
	}
	return n, err
}

// regroup holds up what keeps the process in its group while that is out of reach.
// It also counts what is told of requests.
func (c *Conn) regroup(kind string) error {
	switch kind {
	case "Produce":
		c.link.Wrote.Store(time.Now().UnixNano())
	case "ShareFetch":
		if c.link.Fetched != nil {
			c.link.Fetched()
		}
	case "Heartbeat", "JoinGroup", "SyncGroup", "LeaveGroup":
		return c.writeBy.wait(&c.link.Group, c.link.Dead, c.closed)
	}
	return nil
}

func (c *Conn) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.closed:
		return net.ErrClosed
	case <-c.link.Dead:
		return ErrDead
	}
}

// request is the kind of a request to the broker. Clients write each at once.
func (c *Conn) request(b []byte) string {
	if c.broker == NoBroker || len(b) < 8 {
		return ""
	}
	return kmsg.NameForKey(int16(binary.BigEndian.Uint16(b[4:])))
}

// Close closes it, once.
func (c *Conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.link.forget(c)
	return c.end()
}

// SetDeadline is of both directions.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return c.inner(t, c.Conn.SetDeadline)
}

// SetReadDeadline also ends the wait for what has come and may not get in.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return c.inner(t, c.Conn.SetReadDeadline)
}

// SetWriteDeadline also ends the wait to get out.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.set(t)
	return c.inner(t, c.Conn.SetWriteDeadline)
}

// inner sets a deadline of the connection below, as long as it is the process's.
func (c *Conn) inner(t time.Time, set func(time.Time) error) error {
	if c.left.Load() {
		return net.ErrClosed
	}
	return set(t)
}

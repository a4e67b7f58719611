// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

// line is a network between some clients and their brokers that can be cut:
// then nothing comes through, and nobody is told, until it is mended.
type line struct {
	mu   sync.Mutex
	open chan struct{} // closed while the line is whole
}

func newLine() *line {
	l := &line{open: make(chan struct{})}
	close(l.open)
	return l
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *line) repair() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

// isCut says whether it is cut.
func (l *line) isCut() bool {
	select {
	case <-l.whole():
		return false
	default:
		return true
	}
}

func (l *line) whole() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-l.whole():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &lined{Conn: c, line: l, closed: make(chan struct{})}, nil
}

// lined is a connection by a line.
type lined struct {
	net.Conn
	line *line

	once   sync.Once
	closed chan struct{}

	mu     sync.Mutex
	readBy time.Time
	sendBy time.Time
}

func (c *lined) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *lined) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.readBy, c.sendBy = t, t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

func (c *lined) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.readBy = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *lined) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.sendBy = t
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(t)
}

// Read holds back what comes while the line is cut.
func (c *lined) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if held := c.through(func() time.Time { return c.readBy }); held != nil {
		return 0, held
	}
	return n, err
}

// Write holds back what goes while the line is cut.
func (c *lined) Write(b []byte) (int, error) {
	if held := c.through(func() time.Time { return c.sendBy }); held != nil {
		return 0, held
	}
	return c.Conn.Write(b)
}

// through waits until the line is whole, the connection is closed or time is up.
func (c *lined) through(deadline func() time.Time) error {
	whole := c.line.whole()
	select {
	case <-whole:
		return nil
	default:
	}
	c.mu.Lock()
	by := deadline()
	c.mu.Unlock()
	var late <-chan time.Time
	if !by.IsZero() {
		timer := time.NewTimer(time.Until(by))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-whole:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

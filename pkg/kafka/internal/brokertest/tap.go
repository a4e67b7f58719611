// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// WireTap stands between a client and its brokers and sees which requests are
// written. It can swallow the answer to one of them: the connection is cut
// once the broker has answered.
type WireTap struct {
	Mu      sync.Mutex
	sent    map[int16]int
	Swallow int16 // the key of the request that gets no answer next; 0: none
}

func (w *WireTap) Count(key int16) int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.sent[key]
}

func (w *WireTap) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return &tapped{Conn: c, tap: w}, err
}

type tapped struct {
	net.Conn
	tap  *WireTap
	lose atomic.Bool
}

// Write sees one request at a time: the client flushes each by itself.
func (c *tapped) Write(b []byte) (int, error) {
	key := int16(binary.BigEndian.Uint16(b[4:]))
	c.tap.Mu.Lock()
	if c.tap.sent == nil {
		c.tap.sent = map[int16]int{}
	}
	c.tap.sent[key]++
	if key != 0 && key == c.tap.Swallow {
		c.tap.Swallow = 0
		c.lose.Store(true)
	}
	c.tap.Mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.lose.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// Expect does something and waits until so many requests of a kind were
// written in all.
func (w *WireTap) Expect(t testing.TB, key int16, n int, do func()) {
	t.Helper()
	do()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := Patient(t); w.Count(key) < n; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d requests %d were written, want %d", w.Count(key), key, n)
		}
	}
}

// CountedConn is open until it is closed once.
type CountedConn struct {
	net.Conn
	Open *atomic.Int64
	over atomic.Bool
}

func (c *CountedConn) Close() error {
	if !c.over.Swap(true) {
		c.Open.Add(-1)
	}
	return c.Conn.Close()
}

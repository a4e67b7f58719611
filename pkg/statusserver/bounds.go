// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"golang.org/x/time/rate"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/ratelimit"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Bounds keep one caller, or all of them, from taking everything that the server has. 0 is no bound.
type Bounds struct {
	Connections        int // open ones
	AddressConnections int // open ones of one address
	AddressRate        int // requests and new connections of one address a second
}

// What there may be too much of, in the metrics.
const (
	boundAll     = "all"
	boundAddress = "address"
	boundRate    = "rate"
)

// bounded is a listener that closes connections beyond the bounds at once. It does not let them
// wait: those that hold their connections would keep all others out.
type bounded struct {
	net.Listener
	bounds  Bounds
	rates   *ratelimit.Limiter
	metrics *httpMetrics

	mu        sync.Mutex
	open      int
	byAddress map[string]int // open ones; no address stays that has none
}

// Accept waits for a connection within the bounds.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := ratelimit.Address(c.RemoteAddr().String())
		bound := b.enter(address)
		if bound == "" {
			return &boundedConn{Conn: c, left: sync.OnceFunc(func() { b.leave(address) })}, nil
		}
		b.metrics.countClosed(bound)
		_ = c.Close() // nothing was said on it
	}
}

// enter counts a connection, or names the bound that it is beyond.
func (b *bounded) enter(address string) (bound string) {
	if _, ok := b.rates.Allow(address); !ok {
		return boundRate
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.bounds.Connections > 0 && b.open >= b.bounds.Connections:
		return boundAll
	case b.bounds.AddressConnections > 0 && b.byAddress[address] >= b.bounds.AddressConnections:
		return boundAddress
	}
	b.open++
	b.byAddress[address]++
	return ""
}

func (b *bounded) leave(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if b.byAddress[address]--; b.byAddress[address] == 0 {
		delete(b.byAddress, address)
	}
}

// Open is how many connections are open.
func (b *bounded) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

type boundedConn struct {
	net.Conn
	left func()
}

// Close gives the place of the connection free. A second call does nothing more.
func (c *boundedConn) Close() error {
	c.left()
	return c.Conn.Close()
}

// limitAddresses refuses requests of an address from which too many come.
func limitAddresses(rates *ratelimit.Limiter, m *httpMetrics, next http.Handler) http.Handler {
	if rates == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := ratelimit.Address(r.RemoteAddr)
		wait, ok := rates.Allow(address)
		if ok {
			next.ServeHTTP(w, r)
			return
		}
		m.countLimited()
		w.Header().Set("Retry-After", ratelimit.Seconds(wait))
		rest.TooMany(compute.Error{
			Field: "limits.address_rate", Value: fmt.Sprint(rates.PerSecond()),
			Message: "more requests a second come from " + address,
		}).Answer(w)
	})
}

// fewLines lets some lines a second through: callers that open connections and send rubbish must
// not fill the log.
type fewLines struct {
	to   io.Writer
	rate *rate.Limiter
}

func newFewLines(to io.Writer) fewLines { return fewLines{to, rate.NewLimiter(5, 20)} }

func (f fewLines) Write(line []byte) (int, error) {
	if !f.rate.Allow() {
		return len(line), nil
	}
	return f.to.Write(line)
}

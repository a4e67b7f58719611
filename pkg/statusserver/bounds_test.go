// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// from dials from an address of this machine.
func from(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 0))}
}

// counting answers and counts.
type counting struct{ asked atomic.Int64 }

func (c *counting) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.asked.Add(1)
	_, _ = io.WriteString(w, "served")
}

func stopped() time.Time { return time.Unix(0, 0) }

// TestRubbishFromOneAddress: an address that sends all it can, over as many connections as it
// gets, has its share of requests and no more, while another one's are all served. The clock
// stands still, so the numbers are exact whatever the machine's speed.
func TestRubbishFromOneAddress(t *testing.T) {
	const rate, callers, each = 200, 20, 500 // 10,000 requests, and 20 connections at once
	registry := prometheus.NewRegistry()
	f := New(Options{
		Address: "127.0.0.1:0", Registerer: registry, now: stopped,
		Bounds: Bounds{Connections: 100, AddressConnections: 30, AddressRate: rate},
	})
	h := &counting{}
	f.Serve(h)
	running(t, f)
	var answered, limited, cut atomic.Int64
	var all sync.WaitGroup
	for w := range callers {
		c := (*connection)(nil).again(t, f.Addr().String())
		all.Go(func() {
			for i := range each {
				if c == nil || w%2 == 0 && i%2 == 1 { // half of them make a new one for every second request
					c = c.again(t, f.Addr().String())
				}
				switch c.rubbish(t, fmt.Sprintf("/%d/%d%s", w, i, strings.Repeat("x", i))) {
				case http.StatusOK:
					answered.Add(1)
				case http.StatusTooManyRequests:
					limited.Add(1)
				default:
					cut.Add(1)
					c = c.close()
				}
			}
			c.close()
		})
	}
	good := &http.Client{Transport: &http.Transport{DialContext: from("127.0.0.1").DialContext}}
	defer good.CloseIdleConnections()
	for range rate {
		resp, err := good.Get("http://" + f.Addr().String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); resp.StatusCode != 200 {
			t.Fatalf("a good caller is answered %d", resp.StatusCode)
		}
	}
	all.Wait()
	// There are twice as many at once as in a second, and connections count too.
	if n := answered.Load(); n < rate/2 || n >= 2*rate || h.asked.Load() != n+rate {
		t.Errorf("%d of the rubbish were answered, the handler was asked %d times", n, h.asked.Load())
	}
	if n := answered.Load() + limited.Load() + cut.Load(); n != callers*each || limited.Load() == 0 || cut.Load() == 0 {
		t.Errorf("%d sent, %d refused, %d cut off", n, limited.Load(), cut.Load())
	}
	if n := f.rates.Len(); n != 2 {
		t.Errorf("%d addresses are remembered", n)
	}
	if n := testutil.ToFloat64(f.metrics.limited); n != float64(limited.Load()) {
		t.Errorf("%v are counted, %d were seen", n, limited.Load())
	}
	if n := testutil.CollectAndCount(registry, "berth_http_connections"); n != 1 {
		t.Errorf("open connections are not shown: %d", n)
	}
}

// connection is one from another address than the good caller's.
type connection struct {
	net.Conn
	answers *bufio.Reader
}

func (c *connection) again(t *testing.T, server string) *connection {
	c.close()
	conn, err := from("127.0.0.2").DialContext(t.Context(), "tcp", server)
	if err != nil {
		return nil
	}
	return &connection{conn, bufio.NewReader(conn)}
}

func (c *connection) close() *connection {
	if c != nil {
		c.Conn.Close()
	}
	return nil
}

// rubbish sends one request; 0 is no answer.
func (c *connection) rubbish(t *testing.T, path string) (status int) {
	if c == nil {
		return 0
	}
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %[1]s\r\n\r\n", path)
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	defer func() { _, _ = io.Copy(io.Discard, resp.Body) }()
	if resp.StatusCode == http.StatusTooManyRequests {
		body, _ := io.ReadAll(resp.Body)
		p := got{resp.StatusCode, resp.Header, string(body)}.problem(t, 429)
		if p.Kind != "unavailable" || p.Field != "limits.address_rate" || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%+v, Retry-After %q", p, resp.Header.Get("Retry-After"))
		}
	}
	return resp.StatusCode
}

// TestConnectionsAreBounded: those of one address, and all together; a place is free again once a
// connection has ended.
func TestConnectionsAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := New(Options{
		Address: "127.0.0.1:0", Registerer: registry, Bounds: Bounds{Connections: 5, AddressConnections: 3},
	})
	f.Up()
	running(t, f)
	open := func(address string) net.Conn {
		t.Helper()
		c, err := from(address).DialContext(t.Context(), "tcp", f.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	serves := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return err == nil
	}
	var first net.Conn
	for i := range 3 {
		if first = open("127.0.0.2"); !serves(first) {
			t.Fatalf("connection %d is not served", i)
		}
	}
	if serves(open("127.0.0.2")) {
		t.Error("one address has four connections")
	}
	for range 2 {
		if !serves(open("127.0.0.3")) {
			t.Error("another address has none")
		}
	}
	if serves(open("127.0.0.4")) {
		t.Error("there are six connections")
	}
	for bound, want := range map[string]float64{boundAddress: 1, boundAll: 1, boundRate: 0} {
		if n := testutil.ToFloat64(f.metrics.closed.WithLabelValues(bound)); n != want {
			t.Errorf("closed for %s: %v, want %v", bound, n, want)
		}
	}
	first.Close()
	for !serves(open("127.0.0.4")) { // the server hears of the end later
	}
}

// closer is a connection that only closes.
type closer struct{ net.Conn }

func (closer) Close() error         { return nil }
func (closer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

type one struct {
	net.Listener
	conns chan net.Conn
}

func (o one) Accept() (net.Conn, error) { return <-o.conns, nil }

// A connection that is closed twice gives one place free, and no address stays that has none.
func TestClosedTwice(t *testing.T) {
	conns := make(chan net.Conn, 2)
	b := &bounded{Listener: one{conns: conns}, byAddress: map[string]int{}}
	conns <- closer{}
	conns <- closer{}
	first, _ := b.Accept()
	second, _ := b.Accept()
	_ = first.Close()
	_ = first.Close()
	if b.Open() != 1 || b.byAddress["192.0.2.1"] != 1 {
		t.Errorf("%d open, %v", b.Open(), b.byAddress)
	}
	_ = second.Close()
	if b.Open() != 0 || len(b.byAddress) != 0 {
		t.Errorf("%d open, %v", b.Open(), b.byAddress)
	}
}

// TestNoOriginIsLetIn: without a word in the settings no page of another origin may read an answer.
func TestNoOriginIsLetIn(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	f.Up()
	running(t, f)
	for _, method := range []string{"GET", "OPTIONS"} {
		req, err := http.NewRequestWithContext(context.Background(), method, "http://"+f.Addr().String()+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://evil.example")
		req.Header.Set("Access-Control-Request-Method", "GET")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s: %s", method, name, resp.Header.Get(name))
			}
		}
	}
}

// A server at which rubbish arrives does not fill its log.
func TestFewLines(t *testing.T) {
	var b strings.Builder
	few := newFewLines(&b)
	for range 10_000 {
		if n, err := few.Write([]byte("http: TLS handshake error\n")); n != 26 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := strings.Count(b.String(), "\n"); n < 20 || n > 1000 {
		t.Errorf("%d lines", n)
	}
}

package kafka

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/wire"
)

// What a reader and a puller open to ask who leads and where a topic ends, they
// do not keep: a reader that waits has one connection, and so has a puller's lane.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		b, err := embedded.Start(embedded.Options{Listen: network.Listen})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var open atomic.Int64
		cfg := Config{Brokers: b.Addrs(), Topics: wire.Topics{Prefix: "t."}, Dial: func(ctx context.Context, n, a string) (net.Conn, error) {
			c, err := network.DialContext(ctx, n, a)
			if err == nil {
				open.Add(1)
			}
			return &countedConn{Conn: c, open: &open}, err
		}}
		a, err := NewAdmin(cfg)
		if err != nil {
			t.Fatal(err)
		}
		q := queueIn(t, a, "g", "a")[0]
		if err := a.InitShareState(t.Context(), "g", names(q)); err != nil {
			t.Fatal(err)
		}
		a.Close()
		r := read(t, cfg, ReaderOptions{Topic: cfg.Topics.Build("a")})
		<-r.Ready()
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := pull(t, cfg, PullerOptions{})
		for range 24 { // two minutes
			if got := p.fetch(t, q); got.Err != nil || got.Record != nil {
				t.Errorf("%+v", got)
			}
		}
		if n := open.Load(); n != 2 {
			t.Errorf("%d connections are open, want the reader's and the lane's", n)
		}
		r.stop()
		<-r.ended
		p.end()
	})
}

// countedConn is open until it is closed once.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	over atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.over.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

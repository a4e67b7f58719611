// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// What a puller opens to ask for leaders it does not keep: a session that waits has one connection.
func TestIdleConnectionsOfAPullerEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		b, err := embedded.Start(embedded.Options{Listen: network.Listen})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var open atomic.Int64
		cfg := kafka.Config{
			Brokers: b.Addrs(),
			Topics:  wire.Topics{Prefix: "t."},
			Dial: func(ctx context.Context, n, a string) (net.Conn, error) {
				c, err := network.DialContext(ctx, n, a)
				if err == nil {
					open.Add(1)
				}
				return &brokertest.CountedConn{Conn: c, Open: &open}, err
			},
		}
		a, err := admin.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		q := queueIn(t, a, "g", "a")[0]
		if err := a.InitShareState(t.Context(), "g", names(q)); err != nil {
			t.Fatal(err)
		}
		a.Close()
		p := pull(t, cfg, Options{})
		for range 24 { // two minutes
			if got := p.fetch(t, q); got.Err != nil || got.Record != nil {
				t.Errorf("%+v", got)
			}
		}
		if n := open.Load(); n != 1 {
			t.Errorf("%d connections are open, want the session's", n)
		}
		p.end()
	})
}

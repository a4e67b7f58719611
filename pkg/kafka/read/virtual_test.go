// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/wire"
)

// What a reader opens to ask for leaders and ends, it does not keep: a reader that waits has one connection.
func TestIdleConnectionsEnd(t *testing.T) {
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
		brokertest.MakeTopic(t, cfg, "t.x", 1, nil)
		r := read(t, cfg, Options{Topic: "t.x"})
		<-r.Ready()
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if n := open.Load(); n != 1 {
			t.Errorf("%d connections are open, want one", n)
		}
		r.stop()
		<-r.ended
	})
}

// A reader with a pace hands over at once what comes alone, and takes a dense stream in a few fetches; Sync does not
// wait for the pace.
func TestPacedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := brokertest.VirtualCell(t)
		const pace = time.Second
		p := clienttest.Producer(t, cfg)
		send := func(value string) {
			if err := p.Send(
				t.Context(), wire.Record{Key: []byte("k"), Value: []byte(value)}.To(cfg.Topics.Requests(), 0),
			); err != nil {
				t.Fatal(err)
			}
		}
		r := read(t, cfg, Options{Topic: cfg.Topics.Requests(), Partitions: []int32{0}, Pace: pace})
		brokertest.Await(t, r.Ready(), "the reader is ready")
		time.Sleep(2 * pace)
		alone := time.Now()
		send("alone")
		r.upTo(t, "alone")
		if after := time.Since(alone); after >= pace/10 {
			t.Errorf("one alone was handed over after %s", after)
		}
		time.Sleep(2 * pace)
		for range 50 { // five seconds
			send("many")
			time.Sleep(pace / 10)
		}
		send("last")
		batches := 0
		for last := false; !last; batches++ {
			b := <-r.batches
			last = len(b.Records) > 0 && string(b.Records[len(b.Records)-1].Value) == "last"
		}
		if batches > 10 {
			t.Errorf("51 records of five seconds came in %d batches", batches)
		}
		send("seen")
		synced := time.Now()
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := time.Since(synced); after >= pace/10 {
			t.Errorf("Sync took %s", after)
		}
		r.upTo(t, "seen")
		r.stop()
		<-r.ended
		p.Close()
	})
}

// A reader knows up to when it has heard everything: while it is answered, its
// wait ago at most; when its answers are held up, no later than they were given.
func TestReaderKnowsWhenItWasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := brokertest.VirtualCell(t)
		hold := &held{}
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, n, a string) (net.Conn, error) {
			c, err := dial(ctx, n, a)
			return hold.on(c), err
		}
		const wait = 2 * time.Second
		r := read(t, cfg, Options{Topic: cfg.Topics.Requests(), Partitions: []int32{0}, MaxWait: wait})
		if !r.CaughtUpAt().IsZero() {
			t.Error("it has heard something before it began")
		}
		brokertest.Await(t, r.Ready(), "the reader is ready")
		time.Sleep(10 * wait)
		if age := time.Since(r.CaughtUpAt()); age > wait {
			t.Errorf("nothing heard for %s", age)
		}
		cut := time.Now()
		hold.set(true)
		time.Sleep(10 * wait)
		if late := r.CaughtUpAt().Sub(cut); late > 0 {
			t.Errorf("heard of what was said %s after it was cut off", late)
		}
		hold.set(false)
		synctest.Wait()
		if late := r.CaughtUpAt().Sub(cut); late > wait {
			t.Errorf("an answer that was held up counts as of %s after the cut", late)
		}
		time.Sleep(10 * wait)
		if age := time.Since(r.CaughtUpAt()); age > wait {
			t.Errorf("nothing heard for %s, and nothing holds it up", age)
		}
		r.stop()
		<-r.ended
	})
}

// held keeps back what comes in on connections.
type held struct {
	mu   sync.Mutex
	open chan struct{} // nil: nothing is kept back
}

func (h *held) set(hold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hold {
		h.open = make(chan struct{})
		return
	}
	close(h.open)
	h.open = nil
}

func (h *held) on(c net.Conn) net.Conn {
	if c == nil {
		return nil
	}
	return &heldConn{c, h}
}

type heldConn struct {
	net.Conn
	hold *held
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.hold.mu.Lock()
	open := c.hold.open
	c.hold.mu.Unlock()
	if open != nil {
		<-open
	}
	return n, err
}

// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// liar says after every beacon, in the host's name, that the host has nothing.
type liar struct {
	topics wire.Topics
	send   *write.Producer
	mu     sync.Mutex
	last   map[compute.HostID]bool // whether the last word about a host is a lie
	news   chan struct{}           // has room for one word that there is news
	err    error
}

// lie begins to lie about all hosts, and goes on until the test ends.
func (r *rig) lie() *liar {
	r.t.Helper()
	c := r.cell("liar")
	p, err := write.NewProducer(c.Kafka)
	r.must(err)
	r.t.Cleanup(p.Close)
	l := &liar{topics: c.Topics(), send: p, last: map[compute.HostID]bool{}, news: make(chan struct{}, 1)}
	r.start("liar", c.Table(l.topics.Hosts(), l.read))
	return l
}

// read answers the truth with a lie. Nothing is locked meanwhile: a producer that is
// closed fails a record before it has taken it.
func (l *liar) read(recs cell.Records, _ bool) {
	for _, lie := range l.lies(recs) {
		l.send.SendAsync(lie, l.fail)
	}
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// lies are the answers to what is not a lie already.
func (l *liar) lies(recs cell.Records) (lies []wire.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rec := range recs {
		b, err := wire.DecodeBeacon(rec)
		if err != nil {
			l.err = err
			continue
		}
		l.last[b.Host] = len(b.Inventory.Totals) == 0
		if l.last[b.Host] {
			continue
		}
		b.Free, b.Inventory.Totals = nil, nil
		lies = append(lies, wire.EncodeBeacon(b).To(l.topics.Hosts(), rec.Partition))
	}
	return lies
}

func (l *liar) fail(_ int64, err error) {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
	}
}

// await returns when nothing is known of any of n hosts but the lie.
func (l *liar) await(t *testing.T, n int) {
	t.Helper()
	lost := time.After(patience)
	for !l.believed(t, n) {
		select {
		case <-l.news:
		case <-lost:
			t.Fatalf("not all of %d hosts were lied about after %s", n, patience)
		}
	}
}

func (l *liar) believed(t *testing.T, n int) bool {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		t.Fatal(l.err)
	}
	for _, lied := range l.last {
		if !lied {
			return false
		}
	}
	return len(l.last) == n
}

// A host is the only authority about itself: whatever the beacons say of what
// hosts have, requests are admitted and placed.
func TestNobodyPlacesByWhatHostsSay(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(5)...).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		r.stop("queues") // its advice would only say what hosts say
		r.lie().await(t, 5)
		ids := r.boot(c, 20, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.exactlyOnce(ids)
	})
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Direct sends requests to brokers by their ids, with a client for each that has only that broker as its seed. So
// none of these clients ever asks for metadata: a kgo client asks once before it can reach a broker by its id. A
// broker without a known address is reached through the client that asks.
type Direct struct {
	cfg  Config
	any  *kgo.Client // nil: such a broker is not reached
	opts []kgo.Opt

	mu     sync.Mutex
	closed bool
	to     map[int32]line
}

// line is a client for one broker.
type line struct {
	client  *kgo.Client
	address string
	used    time.Time
}

// lineIdle is how long a client is kept that is not used. It is less than NoMetadata: a client whose broker was taken
// away for good would ask that for the leaders again and again.
const lineIdle = 10 * time.Minute

func NewDirect(cfg Config, any *kgo.Client, opts ...kgo.Opt) *Direct {
	return &Direct{cfg: cfg, any: any, opts: opts, to: map[int32]line{}}
}

// Broker takes requests for a broker; it is nil if the broker cannot be reached. If it listens elsewhere since, the
// requests under way to the old address fail.
func (d *Direct) Broker(id int32) kmsg.Requestor {
	address := d.cfg.Known.address(id)
	if address == "" {
		return d.unknown(id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.letGo(id)
	l, ok := d.to[id]
	if ok && l.address == address || d.closed {
		if ok {
			l.used = time.Now()
			d.to[id] = l
		}
		return d.seed(l, id)
	}
	cfg := d.cfg
	cfg.Brokers = []string{address}
	client, err := NewClient(
		cfg,
		append([]kgo.Opt{kgo.ConnIdleTimeout(AskedTimeout), kgo.MetadataMaxAge(NoMetadata)}, d.opts...)...)
	if err != nil {
		return d.unknown(id) // the settings were good enough for others
	}
	if ok {
		go l.client.Close() // it may wait for its connections
	}
	d.to[id] = line{client, address, time.Now()}
	return d.seed(d.to[id], id)
}

// letGo closes the clients that nobody has used for long, but for one broker's. d.mu is held.
func (d *Direct) letGo(but int32) {
	for id, l := range d.to {
		if id != but && time.Since(l.used) > lineIdle {
			delete(d.to, id)
			go l.client.Close() // it may wait for its connections
		}
	}
}

func (d *Direct) seed(l line, id int32) kmsg.Requestor {
	if l.client == nil {
		return d.unknown(id)
	}
	return l.client.SeedBrokers()[0]
}

func (d *Direct) unknown(id int32) kmsg.Requestor {
	if d.any == nil {
		return nil
	}
	return d.any.Broker(int(id))
}

// Close ends the connections; not those of the client that asks.
func (d *Direct) Close() {
	d.mu.Lock()
	d.closed = true
	all := d.to
	d.to = map[int32]line{}
	d.mu.Unlock()
	for _, l := range all {
		l.client.Close()
	}
}

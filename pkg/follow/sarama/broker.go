// SPDX-License-Identifier: Apache-2.0

package sarama

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/berth-project/berth/pkg/follow"
)

// adapter asks brokers over its own connections: to each one for fetches, which
// wait, and one for other questions.
type adapter struct {
	client   sarama.Client
	patience time.Duration // with one broker of several

	mu      sync.Mutex
	brokers map[key]*broker
	addrs   map[int32]string // as last heard
	looking bool             // the client finds out where brokers are
}

type key struct {
	id      int32
	fetches bool
}

// broker is a connection, and the way to cut it: sarama knows no contexts.
type broker struct {
	*sarama.Broker
	conns *follow.Conns
}

// known is where each broker may be: as the follower has heard last, and as the client knows, which may have found
// out since that it is elsewhere.
func (a *adapter) known() map[int32][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := map[int32][]string{}
	for id, addr := range a.addrs {
		known[id] = []string{addr}
	}
	for _, b := range a.client.Brokers() {
		if !slices.Contains(known[b.ID()], b.Addr()) {
			known[b.ID()] = append(known[b.ID()], b.Addr())
		}
	}
	return known
}

// look has the client find out where brokers are, with its first addresses if need be. That ends when the client says,
// not with a context: it is not waited for, and is done once at a time. It names no topic, for the client may make one
// that is missing.
func (a *adapter) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.looking {
		return
	}
	a.looking = true
	go func() {
		_ = a.client.RefreshMetadata() // what it has found then says enough
		a.mu.Lock()
		defer a.mu.Unlock()
		a.looking = false
	}()
}

func (a *adapter) addr(id int32) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addrs[id]
}

func (a *adapter) replace(addrs map[int32]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addrs = addrs
}

// ask asks one broker. After an error, and at the end of ctx, its connection is
// closed; the next question makes another.
func ask[R any](ctx context.Context, a *adapter, k key, addr string, f func(*sarama.Broker) (R, error)) (R, error) {
	var none R
	b, err := a.open(k, addr)
	if err != nil {
		return none, err
	}
	stop := context.AfterFunc(ctx, b.conns.Close)
	resp, err := f(b.Broker)
	if !stop() && err == nil {
		err = ctx.Err() // the answer came, and the connection is being closed
	}
	if err != nil {
		a.drop(k, b)
		return none, classify(err)
	}
	return resp, nil
}

func (a *adapter) open(k key, addr string) (*broker, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.brokers[k]; b != nil && b.Addr() == addr {
		return b, nil
	}
	if addr == "" {
		return nil, sarama.ErrBrokerNotFound
	}
	b := &broker{Broker: sarama.NewBroker(addr), conns: &follow.Conns{}}
	if err := b.Open(a.settings(b.conns)); err != nil {
		return nil, err
	}
	if old := a.brokers[k]; old != nil {
		old.shut()
	}
	a.brokers[k] = b
	return b, nil
}

func (a *adapter) drop(k key, b *broker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.brokers[k] == b {
		delete(a.brokers, k)
	}
	b.shut()
}

// shut closes a connection, whether or not there is one.
func (b *broker) shut() {
	b.conns.Close()
	_ = b.Close() // it says that it was not connected
}

// Close ends the connections.
func (a *adapter) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.brokers {
		b.shut()
	}
	clear(a.brokers)
	return nil
}

// settings are the client's as far as they concern the network; its counters
// stay its own.
func (a *adapter) settings(conns *follow.Conns) *sarama.Config {
	theirs := a.client.Config()
	c := sarama.NewConfig()
	c.Net, c.ClientID, c.Version = theirs.Net, theirs.ClientID, version(a.client)
	c.ApiVersionsRequest = true // how old a question may be, the broker knows best
	c.Net.MaxOpenRequests = 1
	d := dialer{
		conns: conns,
		next: &net.Dialer{
			Timeout: min(theirs.Net.DialTimeout, patience), KeepAlive: theirs.Net.KeepAlive,
			LocalAddr: theirs.Net.LocalAddr,
		},
	}
	if theirs.Net.Proxy.Enable {
		d.next = theirs.Net.Proxy.Dialer
	}
	c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, d
	c.Net.ReadTimeout = max(theirs.Net.ReadTimeout, time.Minute) // the follower's contexts end before
	return c
}

// dialer opens connections that can be cut.
type dialer struct {
	conns *follow.Conns
	next  interface {
		Dial(network, addr string) (net.Conn, error)
	}
}

// Dial opens one.
func (d dialer) Dial(network, addr string) (net.Conn, error) {
	conn, err := d.next.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	return d.conns.Keep(conn), nil
}

// version is the Kafka that the questions are for. From 2.8 on brokers tell the
// ids of topics.
func version(client sarama.Client) sarama.KafkaVersion {
	if v := client.Config().Version; v.IsAtLeast(sarama.V2_8_0_0) {
		return v
	}
	return sarama.V2_8_0_0
}

func classify(err error) error {
	var code sarama.KError
	if errors.As(err, &code) {
		return follow.Code(int16(code), err)
	}
	return err
}

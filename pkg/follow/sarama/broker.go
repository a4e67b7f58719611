// SPDX-License-Identifier: Apache-2.0

package sarama

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/berth-project/berth/pkg/follow"
)

// adapter asks brokers over its own connections: to each one for fetches, which
// wait, and one for other questions.
type adapter struct {
	client sarama.Client

	mu      sync.Mutex
	brokers map[key]*broker
	addrs   map[int32]string // as last heard
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

// known is where brokers are, as far as the follower or else the client knows.
func (a *adapter) known() map[int32]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := map[int32]string{}
	for _, b := range a.client.Brokers() {
		known[b.ID()] = b.Addr()
	}
	maps.Copy(known, a.addrs)
	return known
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
	c.Net, c.ClientID, c.RackID, c.Version = theirs.Net, theirs.ClientID, theirs.RackID, version(a.client)
	c.ApiVersionsRequest = true // how old a question may be, the broker knows best
	c.Net.MaxOpenRequests = 1
	d := dialer{
		conns: conns,
		next: &net.Dialer{
			Timeout: min(theirs.Net.DialTimeout, 10*time.Second), KeepAlive: theirs.Net.KeepAlive,
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

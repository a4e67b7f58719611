// Package embedded runs a Kafka-speaking broker (kfake) inside the process,
// for `berth dev`, `berth demo`, tests and simulation. It is no Kafka: a kill
// loses who holds what in a queue, one goroutine serves all, and uninitialised
// share state goes unnoticed. What is true, Kafka decides.
package embedded

import (
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options say how the broker runs. The zero value is a broker on a free
// loopback port that forgets everything at the end.
type Options struct {
	Port    int                                                 // 0: a free one
	DataDir string                                              // empty: memory only
	Listen  func(network, address string) (net.Listener, error) // nil: net.Listen
	Configs map[string]string                                   // broker settings over ours
}

// Broker is a running embedded broker.
type Broker struct{ cluster *kfake.Cluster }

// Start runs a broker until Close.
func Start(o Options) (*Broker, error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(o.Port),
		kfake.BrokerConfigs(settings(o.Configs)),
	}
	if o.Port == 0 && o.Listen != nil {
		opts[1] = kfake.Ports(virtualPort) // a virtual network has no port 0
	}
	if o.DataDir != "" {
		opts = append(opts, kfake.DataDir(o.DataDir), kfake.SyncWrites())
	}
	if o.Listen != nil {
		opts = append(opts, kfake.ListenFn(o.Listen))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return &Broker{cluster: c}, nil
}

const virtualPort = 9092

// settings are the broker settings Berth needs everywhere.
func settings(over map[string]string) map[string]string {
	s := map[string]string{
		"group.share.delivery.count.limit":        "25",
		"group.share.record.lock.duration.ms":     "30000",
		"share.record.lock.sweep.interval.ms":     "1000",
		"group.initial.rebalance.delay.ms":        "0",
		"group.share.max.share.sessions":          "10000",
		"group.share.max.delivery.count.limit":    "25",
		"group.share.max.record.lock.duration.ms": "60000",
	}
	for k, v := range over {
		s[k] = v
	}
	return s
}

// Addrs is where clients connect.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Close ends the broker; a second call does nothing.
func (b *Broker) Close() { b.cluster.Close() }

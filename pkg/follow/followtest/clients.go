// SPDX-License-Identifier: Apache-2.0

package followtest

import (
	"context"
	"net"
	"testing"

	ibm "github.com/IBM/sarama"
	segmentio "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/franz"
	"github.com/berth-project/berth/pkg/follow/kafkago"
	"github.com/berth-project/berth/pkg/follow/sarama"
)

// Way is one way to follow: a client and a follower on it.
type Way struct {
	Name string
	// Through makes both for a test, which closes the client. It connects with dial; nil: as it does by default.
	Through func(t testing.TB, dial Dial, brokers []string, o follow.Options) *follow.Follower
}

// Dial connects a client to a broker.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// New is Through, with the client's defaults.
func (w Way) New(t testing.TB, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	return w.Through(t, nil, brokers, o)
}

// All are the three followers.
func All() []Way {
	return []Way{{"franz", onFranz}, {"sarama", onSarama}, {"kafkago", onKafkaGo}}
}

// Named finds a way.
func Named(t testing.TB, name string) Way {
	t.Helper()
	for _, w := range All() {
		if w.Name == name {
			return w
		}
	}
	t.Fatalf("nobody follows with %s", name)
	return Way{}
}

func onFranz(t testing.TB, dial Dial, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(brokers...)}
	if dial != nil {
		opts = append(opts, kgo.Dialer(dial))
	}
	client, err := kgo.NewClient(opts...)
	must(t, err)
	t.Cleanup(client.Close)
	f, err := franz.New(client, o)
	must(t, err)
	return f
}

func onSarama(t testing.TB, dial Dial, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	config := ibm.NewConfig()
	if dial != nil {
		config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, dialer(dial)
	}
	client, err := ibm.NewClient(brokers, config)
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	f, err := sarama.New(client, o)
	must(t, err)
	return f
}

// dialer is a way to connect for sarama, which knows no contexts.
type dialer Dial

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

func onKafkaGo(t testing.TB, dial Dial, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	through := &segmentio.Transport{Dial: dial}
	f, err := kafkago.New(&segmentio.Client{Addr: segmentio.TCP(brokers...), Transport: through}, o)
	must(t, err)
	return f
}

// Start runs a follower until the test ends; the channel has what Run answered.
func Start(t testing.TB, f *follow.Follower) <-chan error {
	ctx, stop := context.WithCancel(context.Background())
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- f.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return ended
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package followtest

import (
	"context"
	"testing"

	ibm "github.com/IBM/sarama"
	segmentio "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/franz"
	"github.com/berth-project/berth/pkg/follow/kafkago"
	"github.com/berth-project/berth/pkg/follow/sarama"
)

// Way is one way to follow. New makes client and follower for a test, which
// closes the client.
type Way struct {
	Name string
	New  func(t testing.TB, brokers []string, o follow.Options) *follow.Follower
}

// All are the three followers, each on a client with its defaults.
func All() []Way {
	return []Way{{"franz", Franz}, {"sarama", Sarama}, {"kafkago", KafkaGo}}
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

// Franz follows with a franz-go client.
func Franz(t testing.TB, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	f, err := franz.New(client, o)
	must(t, err)
	return f
}

// Sarama follows with a sarama client.
func Sarama(t testing.TB, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	client, err := ibm.NewClient(brokers, ibm.NewConfig())
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	f, err := sarama.New(client, o)
	must(t, err)
	return f
}

// KafkaGo follows with a kafka-go client.
func KafkaGo(t testing.TB, brokers []string, o follow.Options) *follow.Follower {
	t.Helper()
	f, err := kafkago.New(&segmentio.Client{Addr: segmentio.TCP(brokers...), Transport: &segmentio.Transport{}}, o)
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

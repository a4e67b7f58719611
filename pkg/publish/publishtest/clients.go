// SPDX-License-Identifier: Apache-2.0

package publishtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	ibm "github.com/IBM/sarama"
	segmentio "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/franz"
	"github.com/berth-project/berth/pkg/publish/kafkago"
	"github.com/berth-project/berth/pkg/publish/sarama"
)

// Publish is how one client publishes.
type Publish func(ctx context.Context, q compute.Request) error

// Way is one way to publish. New makes client and publisher for a test, which
// closes both.
type Way struct {
	Name string
	// Everywhere says that it publishes fence and forget, too.
	Everywhere bool
	New        func(t testing.TB, brokers []string, o publish.Options) Publish
}

// Adapters are the three clients, each with the settings its adapter offers and
// with the nearest ones of the client itself.
func Adapters() []Way {
	return []Way{
		{"franz", true, func(t testing.TB, brokers []string, o publish.Options) Publish {
			return Franz(t, brokers, o, kgo.RecordPartitioner(franz.Partitioner(o, nil))).Publish
		}},
		{"franz-by-key", false, func(t testing.TB, brokers []string, o publish.Options) Publish {
			return Franz(t, brokers, o).Publish
		}},
		{"sarama", true, func(t testing.TB, brokers []string, o publish.Options) Publish {
			return Sarama(t, brokers, o, func(*ibm.Config) {}).Publish
		}},
		{"sarama-by-key", false, func(t testing.TB, brokers []string, o publish.Options) Publish {
			return Sarama(t, brokers, o,
				func(c *ibm.Config) { c.Producer.Partitioner = ibm.NewMurmur2Partitioner }).Publish
		}},
		{"kafkago", true, func(t testing.TB, brokers []string, o publish.Options) Publish {
			return KafkaGo(t, brokers, o, kafkago.Balancer{}).Publish
		}},
		{"kafkago-by-key", false, func(t testing.TB, brokers []string, o publish.Options) Publish {
			return KafkaGo(t, brokers, o, segmentio.Murmur2Balancer{}).Publish
		}},
	}
}

// Distinct are the three clients and plain JSON, once each.
func Distinct() []Way {
	ways := Adapters()
	return []Way{ways[0], ways[2], ways[4], {Name: "json", New: PlainJSON}}
}

// Franz makes a franz-go client and publishes through it.
func Franz(t testing.TB, brokers []string, o publish.Options, opts ...kgo.Opt) *publish.Publisher {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ProducerLinger(0)}, opts...)...)
	must(t, err)
	t.Cleanup(client.Close)
	p, err := franz.New(client, o)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// Sarama makes a sarama client and publishes through it; over changes what
// Configure has set.
func Sarama(t testing.TB, brokers []string, o publish.Options, over func(*ibm.Config)) *publish.Publisher {
	t.Helper()
	c := ibm.NewConfig()
	sarama.Configure(c, o)
	over(c)
	client, err := ibm.NewClient(brokers, c)
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	p, err := sarama.New(client, o)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// KafkaGo makes a kafka-go writer and publishes through it.
func KafkaGo(t testing.TB, brokers []string, o publish.Options, b segmentio.Balancer) *publish.Publisher {
	t.Helper()
	transport := &segmentio.Transport{MetadataTopics: []string{o.Topics.Requests()}, MetadataTTL: time.Second}
	w := &segmentio.Writer{
		Addr: segmentio.TCP(brokers...), Balancer: b, RequiredAcks: segmentio.RequireAll,
		BatchTimeout: time.Millisecond, Transport: transport,
		WriteTimeout: time.Minute, // it sends again what is late, and both may arrive
	}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(func() { must(t, w.Close()) })
	answered(t, w)
	p, err := kafkago.New(w, o)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// answered returns once the writer knows the brokers. They have no longer than MetadataTTL for the first answer, and
// that it was late is what the next request would be told.
func answered(t testing.TB, w *segmentio.Writer) {
	t.Helper()
	asks := &segmentio.Client{Addr: w.Addr, Transport: w.Transport}
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := asks.Metadata(t.Context(), &segmentio.MetadataRequest{})
		if err == nil {
			return
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// PlainJSON publishes boots and deletes as text, with a client's defaults and
// nothing of Berth but the names in docs/PUBLISHING.md.
func PlainJSON(t testing.TB, brokers []string, o publish.Options) Publish {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	return func(ctx context.Context, q compute.Request) error {
		body := fmt.Sprintf(`{"project": %q, "instance": %q, "delete": {}}`, q.Project, q.Instance)
		if q.Op == compute.OpBoot {
			body = fmt.Sprintf(`{"project": %q, "instance": %q, "boot": {"name": %q, "flavor": %q}}`, q.Project,
				q.Instance, q.Boot.Name, q.Boot.Flavor)
		}
		return client.ProduceSync(ctx, &kgo.Record{
			Topic: o.Topics.Requests(), Key: []byte(q.Project), Value: []byte(body),
			Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}},
		}).FirstErr()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/readtest"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// A queue that goes is not asked about for the rest of the process's life, and one that is made again is written to.
func TestATopicThatWentIsNotAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, reg := brokertest.Counting(brokertest.VirtualCell(t))
		asked := func() int {
			n, _ := telemetrytest.Value(t, reg, "berth_kafka_request_duration_seconds", "api", kmsg.Metadata.Name())
			return int(n)
		}
		p := producer(t, cfg)
		send := func(topic string) error {
			return p.Send(t.Context(), wire.Record{Value: []byte("v")}.To(topic, 0))
		}
		a := adminOf(t, cfg)
		goes, stays, host := cfg.Topics.Build("goes"), cfg.Topics.Build("stays"), cfg.Topics.Host("h")
		for _, topic := range []string{goes, stays, host} {
			brokertest.MakeTopic(t, cfg, topic, 1, nil)
			if err := send(topic); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.DeleteTopics(t.Context(), goes, host); err != nil {
			t.Fatal(err)
		}
		before := asked()
		time.Sleep(time.Hour)
		// Each look, and what the client asks by itself every five minutes.
		if n := asked() - before; n > 90 {
			t.Errorf("within an hour after two topics went it is asked for leaders %d times", n)
		}
		if got := p.idle(); len(got) != 1 || got[0] != stays {
			t.Errorf("it is looked for %q, and one that is there is left", got)
		}
		brokertest.MakeTopic(t, cfg, goes, 1, nil)
		for _, topic := range []string{goes, stays} {
			if err := send(topic); err != nil {
				t.Errorf("%s: %v", topic, err)
			}
		}
		a.Close()
		p.Close()
	})
}

// A topic that is forgotten though it is there, for a broker that is behind says that it is not, is written to all the
// same: what is acknowledged is in it. Its client stays while it is written to.
func TestForgottenThoughItIsThere(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		p := producer(t, cfg)
		for _, topic := range []string{cfg.Topics.Build("there"), cfg.Topics.Rejected()} {
			brokertest.MakeTopic(t, cfg, topic, 1, nil)
			var want []string
			for _, value := range []string{"one", "two", "three", "four"} {
				rec := wire.Record{Value: []byte(value)}.To(topic, 0)
				if at, err := p.Append(brokertest.Patient(t), rec); err != nil || at != int64(len(want)) {
					t.Errorf("%s is at %d: %v", value, at, err)
				}
				want = append(want, value)
				forgotten := make(chan struct{})
				p.forget(topic, func() { close(forgotten) })
				<-forgotten
			}
			r := readtest.Follow(t, cfg, read.Options{Topic: topic, Partitions: []int32{0}})
			if got := r.UpTo(t, "four"); !slices.Equal(got, want) {
				t.Errorf("in %s are %q, and acknowledged were %q", topic, got, want)
			}
			client, own := p.clientFor(topic)
			if p.closeIdle(); !own {
				t.Errorf("%s has no client of its own", topic)
			}
			if again, _ := p.clientFor(topic); again != client {
				t.Errorf("the client of %s is closed, though it was just asked for", topic)
			}
		}
	})
}

// Once a sender hears that its record was written, the topic may be forgotten: by then it must be known that it was.
func TestItIsKnownToBeWrittenToBeforeTheSenderHears(t *testing.T) {
	cfg := brokertest.TestConfig(kafkatest.Embedded(t))
	p, topic := producer(t, cfg), cfg.Topics.Build("written")
	brokertest.MakeTopic(t, cfg, topic, 1, nil)
	known := make(chan bool, 1)
	p.SendAsync(wire.Record{Value: []byte("v")}.To(topic, 0), func(_ int64, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		known <- err == nil && p.wrote[topic]
	})
	if !<-known {
		t.Error("a record was written, or so its sender hears, and the topic counts as one without records")
	}
}

// A topic to which nothing was ever written has nothing to be mistaken for: it shares the client of all others.
func TestForgottenBeforeItWasThere(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		p, topic := producer(t, cfg), cfg.Topics.Build("late")
		rec := wire.Record{Value: []byte("v")}.To(topic, 0)
		if err := p.Send(brokertest.Patient(t), rec); !errors.Is(err, wire.ErrNoTopic) {
			t.Errorf("before it is made: %v", err)
		}
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		for ctx := brokertest.Patient(t); p.Send(ctx, rec) != nil; {
			if ctx.Err() != nil {
				t.Fatal("it is made, and cannot be written to")
			}
		}
		if len(p.owned()) > 0 {
			t.Error("it has a client of its own")
		}
	})
}

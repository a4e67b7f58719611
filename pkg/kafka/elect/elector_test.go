// SPDX-License-Identifier: Apache-2.0

package elect

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestElectorOneAtATimeAndTheNextWhenItStops(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := kafka.Config{Brokers: b.Addrs, Topics: wire.Topics{Prefix: b.Prefix}}
		topic := cfg.Topics.Catalog()
		cl, err := kafka.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		first, stopFirst := elector(t, cfg, topic)
		if !<-first.Elected() {
			t.Fatal("alone, and not elected")
		}
		second, stopSecond := elector(t, cfg, topic)
		<-second.Ready()
		stopFirst()
		if !<-second.Elected() {
			t.Fatal("the first stopped, and the second was not elected")
		}
		stopSecond()
		if <-second.Elected() {
			t.Fatal("stopped, and still elected")
		}
	})
}

// elector runs one until the answered function is called, which waits for its end.
func elector(t *testing.T, cfg kafka.Config, topic string) (*Elector, func()) {
	t.Helper()
	e := NewElector(cfg, cfg.Topics.ManagerGroup(), topic)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return e, stop
}

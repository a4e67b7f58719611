// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A stream is quiet if nothing was written to it since a time, and goes by its id.
func TestStreamsOfHosts(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		a := adminOf(t, cfg)
		for _, h := range []compute.HostID{"a", "b.c"} {
			if err := a.EnsureHostTopic(brokertest.Patient(t), h, 1); err != nil {
				t.Fatal(err)
			}
		}
		p := producer(t, cfg)
		began := time.Now().Add(-time.Minute)
		if err := p.Send(
			brokertest.Patient(t), wire.Record{Value: []byte("v")}.To(cfg.Topics.Host("a"), 0),
		); err != nil {
			t.Fatal(err)
		}
		for ctx := brokertest.Patient(t); ; { // a broker hears late of a new topic
			known, err := a.HostTopics(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(known) == 2 {
				break
			}
		}
		quiet := func(since time.Time, want ...compute.HostID) {
			t.Helper()
			got, err := a.QuietHosts(brokertest.Patient(t), []compute.HostID{"a", "b.c"}, since)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("quiet since %s: %s %v", since, diff, err)
			}
		}
		quiet(began, "b.c")
		quiet(time.Now().Add(time.Minute), "a", "b.c")
		topics, err := a.HostTopics(brokertest.Patient(t))
		if err != nil || len(topics) != 2 {
			t.Fatalf("%v: %v", topics, err)
		}
		for range 2 { // one that is gone is no error
			if err := a.DeleteHostTopic(brokertest.Patient(t), topics["a"]); err != nil {
				t.Fatal(err)
			}
		}
		for ctx := brokertest.Patient(t); ; { // a broker may know it for a moment longer
			left, err := a.HostTopics(ctx)
			if err != nil {
				t.Fatalf("%v: %v", left, err)
			}
			if len(left) == 1 && left["b.c"] == topics["b.c"] {
				return
			}
		}
	})
}

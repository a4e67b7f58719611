// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMetricsOfAPuller(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		counted, reg := brokertest.Counting(cfg)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		other := pull(t, cfg, Options{MaxWait: short})
		other.Ack(other.takes(t, "0", q), wire.AckRelease)
		other.settled(t, 1)
		other.end()
		p := pull(t, counted, Options{MaxWait: never})
		p.Ack(p.takes(t, "0", q), wire.AckAccept)
		p.settled(t, 1)
		p.openFor(t, short, q)
		if r := p.result(t); r.Record != nil || r.Err != nil {
			t.Errorf("pulled again: %+v", r)
		}
		telemetrytest.Is(t, reg, 1, "berth_pull_fetches_total", "result", "record")
		if n := telemetrytest.Sum(t, reg, "berth_pull_deliveries"); n != 2 {
			t.Errorf("delivery %v, not the second", n)
		}
		telemetrytest.Is(t, reg, 1, "berth_pull_acks_total", "result", "done")
		if empty, _ := telemetrytest.Value(t, reg, "berth_pull_fetches_total", "result", "empty"); empty < 1 {
			t.Error("no fetch was empty")
		}
		p.open(t, q)
		telemetrytest.Is(t, reg, 1, "berth_pull_open_fetches")
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "1") // ends the fetch
		p.result(t)
		telemetrytest.Is(t, reg, 0, "berth_pull_open_fetches")
		p.end()
		p.Open(wire.SessionID{Group: q.Group}, []wire.QueueRef{q}, 0)
		telemetrytest.Is(t, reg, 0, "berth_pull_open_fetches")
	})
}

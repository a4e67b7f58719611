// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// What is pulled comes with the reason, so that the agent can reject it.
func TestPullersPassBombs(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		p := pull(t, cfg, Options{MaxWait: short})
		offset := int64(0)
		for name, codec := range unpacktest.Codecs() {
			bomb := unpacktest.Bomb(t, codec, 48)
			if len(bomb) > kafka.MaxRecordBytes {
				t.Logf("%s: %d bytes are more than a queue takes", name, len(bomb))
				continue
			}
			brokertest.PutRaw(t, cfg, cfg.Topics.Build("a"), 0, bomb)
			r := p.record(t, q)
			brokertest.TooLarge(t, *r.Record, offset)
			p.Ack(r.Ref, wire.AckReject)
			offset++
		}
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "behind")
		if r := p.record(t, q); string(r.Record.Value) != "behind" || r.Ref.Offset != offset {
			t.Errorf("%+v", r)
		}
	})
}

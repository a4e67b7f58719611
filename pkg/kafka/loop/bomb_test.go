// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// A loop hands the reason to its handler, and what is behind.
func TestLoopsPassBombs(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		for _, topic := range []string{cfg.Topics.Requests(), cfg.Topics.Reports(), cfg.Topics.Instances()} {
			brokertest.PutRaw(t, cfg, topic, 0, unpacktest.Bomb(t, kgo.CodecZstd, 48))
		}
		f := feeding(t, cfg, "k", "report")
		f.more(1, 1)
		l := newLedger(t, "a")
		var mu sync.Mutex
		seen := map[string][]wire.Record{}
		l.onTurn = func(in wire.Turn, _ *wire.Result) {
			mu.Lock()
			defer mu.Unlock()
			for _, rec := range in.Records {
				seen[rec.Topic] = append(seen[rec.Topic], rec)
			}
		}
		loop(t, cfg, Options{SessionTimeout: longSession}, l)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has what was decided", func() bool { return len(instances.recs) >= 3 })
		brokertest.TooLarge(t, instances.recs[0], 0)
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range []string{cfg.Topics.Requests(), cfg.Topics.Reports()} {
			if len(seen[topic]) != 2 || string(seen[topic][1].Value) != "1" {
				t.Fatalf("%+v", seen[topic])
			}
			brokertest.TooLarge(t, seen[topic][0], 0)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		brokertest.TooLarge(t, l.tail[0][0], 0) // what was restored
	})
}

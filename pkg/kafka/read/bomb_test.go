// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// Readers of each kind tell of a batch that would unpack to too much, and go on.
func TestReadersPassBombs(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		for name, codec := range unpacktest.Codecs() {
			topic := b.Prefix + name
			brokertest.MakeTopic(t, cfg, topic, 1, map[string]*string{"max.message.bytes": kmsg.StringPtr("8388608")})
			brokertest.Put(t, cfg, topic, 0, "before")
			brokertest.PutRaw(t, cfg, topic, 0, unpacktest.Bomb(t, codec, 48))
			brokertest.Put(t, cfg, topic, 0, "behind")
			for kind, of := range map[string]func(Options) *Reader{
				"alone": func(o Options) *Reader { return NewReader(cfg, o) },
				"committed": func(o Options) *Reader {
					o.Committed = true
					return NewReader(cfg, o)
				},
				"shared": NewSharedFetch(cfg).Reader,
			} {
				t.Run(name+"/"+kind, func(t *testing.T) {
					r := reads(t, Options{Topic: topic}, of)
					brokertest.Await(t, r.Ready(), "the reader is ready")
					var recs []wire.Record
					for len(r.batches) > 0 {
						recs = append(recs, (<-r.batches).Records...)
					}
					if len(recs) != 3 || string(recs[0].Value) != "before" || string(recs[2].Value) != "behind" {
						t.Fatalf("%+v", recs)
					}
					brokertest.TooLarge(t, recs[1], 1)
				})
			}
		}
	})
}

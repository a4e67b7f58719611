// SPDX-License-Identifier: Apache-2.0

package write

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
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

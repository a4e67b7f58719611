// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// In virtual time a puller lives through an hour of waiting, in which its
// session and its connection are idle for long, and stops clean.
func TestPullerInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		b, err := embedded.Start(embedded.Options{Listen: network.Listen})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		cfg := kafka.Config{Brokers: b.Addrs(), Topics: wire.Topics{Prefix: "t."}, Dial: network.DialContext}
		a, err := admin.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		q := queueIn(t, a, "g", "a")[0]
		if err := a.InitShareState(t.Context(), "g", names(q)); err != nil {
			t.Fatal(err)
		}
		send, err := write.NewProducer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer send.Close()
		p := pull(t, cfg, Options{})
		defer p.end()
		for _, pause := range []time.Duration{0, time.Second, 6 * time.Minute, 20 * time.Minute, time.Minute} {
			time.Sleep(pause)
			if r := p.fetch(t, q); r.Record != nil {
				t.Errorf("%+v", r)
			}
			if err := send.Send(t.Context(), wire.Record{Value: []byte("v")}.To(cfg.Topics.Build("a"), 0)); err != nil {
				t.Fatal(err)
			}
			p.Ack(p.takes(t, "v", q), wire.AckAccept)
		}
		time.Sleep(DefaultAckWait)
		synctest.Wait()
		if c := p.Counts(); c.AcksDone != 5 || c.Sessions != 0 || c.AcksDropped != 0 {
			t.Errorf("%+v", c)
		}
	})
}

func names(queues ...wire.QueueRef) (all []compute.QueueName) {
	for _, q := range queues {
		all = append(all, q.Name)
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// Beside an open fetch the secondary session takes from other queues, and from the same
// one, as if it were another host; its fetches do not last.
func TestSecondarySession(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		queues := initialised(t, cfg, b.Prefix+"g", "a", "b")
		cfg.Dial = tap.Dial
		p := pull(t, cfg, Options{MaxWait: never}) // what waits for the end of that waits in vain
		sessions, err := p.placed(t, queues...)
		if err != nil || len(sessions) != 1 {
			t.Fatalf("%v %v", sessions, err)
		}
		var first, secondary wire.SessionID
		for l := range sessions {
			first, secondary = l, l
		}
		secondary.Secondary = true
		tap.Expect(t, fetchKey, 1, func() { p.Open(first, queues[:1], 0) })

		p.Open(secondary, queues, 0)
		if r := p.result(t); r.Session != secondary || r.Record != nil || r.Err != nil {
			t.Errorf("%+v: want the end of the secondary session's fetch, long before the other's", r)
		}
		brokertest.Put(t, cfg, cfg.Topics.Build("b"), 0, "1")
		var r wire.Pulled
		for ctx := brokertest.Patient(t); r.Record == nil && ctx.Err() == nil; { // a busy broker may need several
			p.Open(secondary, queues[1:], 0)
			if r = p.result(t); r.Session != secondary || r.Err != nil {
				break
			}
		}
		if r.Session != secondary || r.Err != nil || r.Record == nil || string(r.Record.Value) != "1" {
			t.Fatalf("%+v: want the record of b", r)
		}
		p.Ack(r.Ref, wire.AckAccept)
		if c := p.settled(t, 1); c.AcksDone != 1 {
			t.Errorf("%+v", c)
		}

		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "2")
		if r := p.result(t); r.Session != first || r.Err != nil || r.Record == nil || string(r.Record.Value) != "2" {
			t.Errorf("%+v: want the record of a in the session that waited all along", r)
		}
	})
}

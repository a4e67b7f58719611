// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// What is held at a leader that freezes or dies comes again from the next one,
// long before requests time out.
func TestLeaderIsLost(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	cfg := kafka.Config{Brokers: c.Addrs(), Topics: wire.Topics{Prefix: "t."}, RequestTimeout: time.Minute}
	slow := cfg
	slow.RequestTimeout = 10 * time.Minute // a caller that waits for that waits in vain
	q := replicated(t, cfg, "a")
	for _, f := range []struct {
		name       string
		fail, heal func(id int) error
	}{
		{"frozen", c.Pause, c.Resume},
		{"killed", c.Kill, func(id int) error { return c.Restart(t.Context(), id) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			awaitReplicas(t, cfg, c.Nodes())
			p := pull(t, slow, Options{MaxWait: time.Second})
			brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, f.name)
			p.open(t, q)
			taken := p.persist(t, q) // a broker that hears nothing for 3 s loses what it leads
			if string(taken.Record.Value) != f.name {
				t.Fatalf("pulled %q", taken.Record.Value)
			}
			first := taken.Ref
			p.Open(first.Session, []wire.QueueRef{q}, 0)
			leader := int(first.Session.Broker)
			if err := f.fail(leader); err != nil {
				t.Fatal(err)
			}
			again := p.persist(t, q)
			if string(
				again.Record.Value,
			) != f.name || again.Ref.Offset != first.Offset || again.Ref.Session == first.Session {
				t.Errorf("pulled %q, %+v", again.Record.Value, again.Ref)
			}
			p.Ack(first, wire.AckAccept) // of a session that is gone
			p.Ack(again.Ref, wire.AckAccept)
			if c := p.settled(t, 1); c.AcksDone != 1 || c.AcksDropped != 1 || c.Sessions == 0 {
				t.Errorf("%+v", c)
			}
			if err := f.heal(leader); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// persist reads results and fetches on, whatever the errors, until a record
// comes.
func (p *testPuller) persist(t testing.TB, q wire.QueueRef) wire.Pulled {
	t.Helper()
	for ctx := brokertest.Patient(t); ; {
		if r := p.result(t); r.Record != nil {
			return r
		}
		for {
			sessions, _ := p.Place(ctx, []wire.QueueRef{q})
			for id, qs := range sessions {
				p.Open(id, qs, 0)
			}
			if len(sessions) > 0 {
				break
			}
			if pace.Sleep(ctx, askAgain) != nil {
				t.Fatal("the queue was never placed again")
			}
		}
	}
}

// replicated makes a queue with a replica at each of three brokers.
func replicated(t testing.TB, cfg kafka.Config, name compute.QueueName) wire.QueueRef {
	t.Helper()
	a := clienttest.Admin(t, cfg)
	ids, err := a.EnsureQueueTopics(brokertest.Patient(t), []compute.QueueName{name}, 3)
	if err == nil {
		err = a.InitShareState(brokertest.Patient(t), "g", []compute.QueueName{name})
	}
	if err != nil {
		t.Fatal(err)
	}
	return wire.QueueRef{Name: name, Group: "g", TopicID: ids[name]}
}

// awaitReplicas waits until every broker is in sync with all there is.
func awaitReplicas(t testing.TB, cfg kafka.Config, brokers int) {
	t.Helper()
	ask := kadm.NewClient(brokertest.AnyClient(t, cfg))
	_, err := retry.Do(brokertest.Patient(t), zap.NewNop(), "waiting for replicas", nil, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(t.Context(), pace.AskTimeout)
		defer cancel()
		m, err := ask.Metadata(ctx)
		if err != nil {
			return struct{}{}, err
		}
		for _, topic := range m.Topics {
			for _, part := range topic.Partitions {
				if len(part.ISR) < brokers {
					err = errors.New("a replica is behind")
				}
			}
		}
		return struct{}{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// A replica that lacks what was decided is elected and its log grows beyond the position before anybody owns the
// partition again: the next owner sets it aside, and goes on from where the logs part once that is wished.
func TestNextOwnerAfterAnUncleanElection(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	cfg := kafka.Config{Brokers: c.Addrs(), Topics: wire.Topics{Prefix: "u."}, RequestTimeout: time.Minute}
	u := newUnclean(t, cfg)
	asides := newAsides()
	a := loop(t, cfg, setAsideTold(asides), newLedger(t, "a"))
	brokertest.Await(t, a.Ready(), "the loop is ready") // by then the brokers have heard of the topics
	before := feeding(t, cfg, "before")
	before.more(1, 1)
	a.await(t, "apply 0 before 1")
	first := u.until(t, "both replicas are in sync", func(p part) bool { return len(p.ISR) == 2 })
	behind := first.Replicas[0]
	if behind == first.Leader {
		behind = first.Replicas[1]
	}
	u.must(c.Pause(int(behind)))
	u.until(t, "the leader is alone", func(p part) bool { return slices.Equal(p.ISR, []int32{first.Leader}) })
	before.more(5, 1)
	a.await(t, "apply 0 before 6")
	a.stop(t)
	u.must(c.Kill(int(first.Leader)))
	u.must(c.Resume(int(behind)))
	u.until(t, "the other leads", func(p part) bool { return p.Leader == behind })
	after := feeding(t, cfg, "after")
	after.more(8, 1)

	b := loop(t, cfg, setAsideTold(asides), newLedger(t, "b"))
	asides.await(t, 0)
	from, err := PositionOf(brokertest.Patient(t), cfg, 0)
	u.must(err)
	to, err := from.Reset(ResetNoticed)
	if err != nil || from.Inputs[requests].At != 1 || to.Inputs[requests].At != 1 {
		t.Fatalf("%+v, then %+v, %v", from, to, err)
	}
	u.must(ResetPosition(brokertest.Patient(t), cfg, to))
	b.await(t, "apply 0 after 8")
	asides.await(t)
	b.stop(t)
}

type part = kmsg.MetadataResponseTopicPartition

// unclean is a cell of one partition whose requests have two replicas, of which any may lead.
type unclean struct {
	t   *testing.T
	cfg kafka.Config
}

func newUnclean(t *testing.T, cfg kafka.Config) unclean {
	t.Helper()
	u, one, yes := unclean{t, cfg}, "1", "true"
	adm := kadm.NewClient(brokertest.AnyClient(t, cfg))
	for _, topic := range []string{
		cfg.Topics.Requests(), cfg.Topics.Reports(), cfg.Topics.Instances(), cfg.Topics.Rejected(), effectsOf(cfg),
	} {
		replicas, configs := int16(3), map[string]*string{"min.insync.replicas": &one}
		if topic == cfg.Topics.Requests() {
			replicas, configs["unclean.leader.election.enable"] = 2, &yes
		}
		_, err := adm.CreateTopic(brokertest.Patient(t), 1, replicas, configs, topic)
		u.must(err)
	}
	return u
}

func (u unclean) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// until waits until something is so of the partition of requests, and answers what is said of it then.
func (u unclean) until(t *testing.T, what string, so func(part) bool) part {
	t.Helper()
	cl := brokertest.AnyClient(t, u.cfg)
	for ctx := brokertest.Patient(t); ; {
		ask, cancel := context.WithTimeout(ctx, 5*time.Second) // the broker may be frozen
		topic, err := brokertest.Describe(ask, cl, u.cfg.Topics.Requests())
		cancel()
		if err == nil && so(topic.Partitions[0]) {
			return topic.Partitions[0]
		}
		if ctx.Err() != nil {
			t.Fatalf("it never was so that %s: %+v, %v", what, topic.Partitions, err)
		}
		service.Sleep(ctx, 100*time.Millisecond)
	}
}

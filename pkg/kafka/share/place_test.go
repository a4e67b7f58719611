// SPDX-License-Identifier: Apache-2.0

package share

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestPlaceFollowsTheNewestLeader(t *testing.T) {
	answer := func(topic byte, code int16, broker, epoch int32) *kmsg.MetadataResponseTopic {
		rt := kmsg.NewMetadataResponseTopic()
		rt.TopicID, rt.ErrorCode = topicUUID{topic}, code
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Leader, rp.LeaderEpoch = broker, epoch
		rt.Partitions = append(rt.Partitions, rp)
		return &rt
	}
	at := place{topic: topicUUID{'a'}, leader: fetch.Leader{Broker: 1, Epoch: 5}, suspect: true}
	for _, c := range []struct {
		name   string
		answer *kmsg.MetadataResponseTopic
		leader fetch.Leader
		err    error
	}{
		{"moved", answer('a', 0, 2, 6), fetch.Leader{Broker: 2, Epoch: 6}, nil},
		{"a broker that is behind", answer('a', 0, 3, 4), fetch.Leader{Broker: 1, Epoch: 5}, nil},
		{"the same", answer('a', 0, 1, 5), fetch.Leader{Broker: 1, Epoch: 5}, nil},
		{"no leader", answer('a', 0, -1, 6), fetch.Leader{Broker: -1, Epoch: 6}, kerr.LeaderNotAvailable},
		{"another topic", answer('b', 0, 3, 0), fetch.Leader{Broker: 3, Epoch: 0}, nil},
		{"gone", answer(0, kerr.UnknownTopicOrPartition.Code, 0, 0), fetch.Leader{}, kerr.UnknownTopicOrPartition},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := at.follow(c.answer, time.Now())
			if got.leader != c.leader || !errors.Is(got.err, c.err) || got.suspect {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, group := brokertest.TestConfig(b), b.Prefix+"g"
		qs := initialised(t, cfg, group, "a", "b")
		p := pull(t, cfg, Options{MaxWait: short})
		gone := wire.QueueRef{Name: "gone", Group: group, TopicID: qs[0].TopicID}
		other := qs[1]
		other.Group = b.Prefix + "h"
		got, err := p.placed(t, qs[0], gone, qs[1], other)
		if compute.KindOf(err) != compute.KindNotFound || !errors.Is(err, wire.ErrNoTopic) {
			t.Errorf("a queue without a topic: %v", err)
		}
		var broker int32
		for l := range got {
			broker = l.Broker
		}
		want := map[wire.SessionID][]wire.QueueRef{
			{Broker: broker, Group: group}:       qs,
			{Broker: broker, Group: other.Group}: {other},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPlaceAnswersFromMemory(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		qs := initialised(t, cfg, b.Prefix+"g", "a", "b")
		cfg.Dial = tap.Dial
		p := pull(t, cfg, Options{MaxWait: short})
		metadata := new(kmsg.MetadataRequest).Key()
		if _, err := p.placed(t, qs...); err != nil {
			t.Fatal(err)
		}
		asked := tap.Count(metadata)
		for range 10 {
			if _, err := p.Place(brokertest.Patient(t), qs); err != nil {
				t.Fatal(err)
			}
		}
		if n := tap.Count(metadata); n != asked {
			t.Errorf("asked %d times more", n-asked)
		}
		p.places.markSuspect(qs[:1])
		for ctx := brokertest.Patient(t); ; {
			_, err := p.Place(ctx, qs)
			if err == nil {
				break
			}
			if pace.Sleep(ctx, askAgain) != nil {
				t.Fatal(err)
			}
		}
		if tap.Count(metadata) == asked {
			t.Error("not asked after trouble")
		}
	})
}

// A ref is to one incarnation of a topic: what waits in another is not its work.
func TestTopicMadeAgainIsNotFetched(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, group := brokertest.TestConfig(b), b.Prefix+"g"
		old := initialised(t, cfg, group, "a")[0]
		p := pull(t, cfg, Options{MaxWait: short})
		if r := p.fetch(t, old); r.Record != nil {
			t.Fatalf("%+v", r)
		}
		if err := clienttest.Admin(t, cfg).DeleteTopics(brokertest.Patient(t), cfg.Topics.Build("a")); err != nil {
			t.Fatal(err)
		}
		made := initialised(t, cfg, group, "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		for ctx := brokertest.Patient(t); ; {
			sessions, err := p.Place(ctx, []wire.QueueRef{old})
			if len(sessions) == 0 {
				if compute.KindOf(err) != compute.KindConflict {
					t.Errorf("left out because of %v", err)
				}
				break
			}
			for id, qs := range sessions { // what the broker says of it makes Place ask
				p.Open(id, qs, 0)
				if r := p.result(t); r.Record != nil {
					t.Fatalf("pulled from another topic: %+v", r)
				}
			}
		}
		p.takes(t, "0", made)
	})
}

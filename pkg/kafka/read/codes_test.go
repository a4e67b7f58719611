// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// readerErrors are those of every kind of request that a reader makes.
var readerErrors = []brokertest.Refusals{
	{
		Key:   kmsg.Metadata,
		Codes: []*kerr.Error{kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable},
	},
	{Key: kmsg.ListOffsets, Codes: []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable,
	}},
	{Key: kmsg.Fetch, Codes: []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID,
		kerr.NotLeaderForPartition, kerr.ReplicaNotAvailable,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.KafkaStorageError,
		kerr.CorruptMessage,
	}},
}

// A reader passes every one of them, at its start and later, and misses nothing.
func TestReaderPassesEveryError(t *testing.T) {
	for _, r := range readerErrors {
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
				brokertest.Put(t, c.Cfg, "r.x", 0, "0", "1")
				h, began := c.Refuse(r.Key, code, 3), time.Now()
				reading := read(t, c.Cfg, Options{Topic: "r.x"})
				reading.upTo(t, "1")
				brokertest.HitBy(t, h, 3)
				<-reading.Ready()
				c.Refuse(kmsg.Fetch, kerr.NotLeaderForPartition, 1) // so that the leaders are asked for
				h = c.Refuse(r.Key, code, 3)
				if r.Key == kmsg.ListOffsets {
					syncUp(t, reading)
				}
				for h.Hits() < 3 && time.Since(began) < time.Minute {
					brokertest.Passes(time.Second)
				}
				brokertest.HitBy(t, h, 3)
				brokertest.Put(t, c.Cfg, "r.x", 0, "2")
				syncUp(t, reading)
				if values, _ := reading.now(); len(values) != 1 || values[0] != "2" {
					t.Errorf("read %q", values)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %v", took)
				}
				reading.stop()
				<-reading.ended
			})
		})
	}
}

// What somebody must put right ends it, with what it is.
func TestReaderEndsWhereItIsForbidden(t *testing.T) {
	for _, r := range readerErrors {
		brokertest.Refuse(r.Key, kerr.TopicAuthorizationFailed).Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
				c.Refuse(r.Key, code, 1)
				reading := read(t, c.Cfg, Options{Topic: "r.x"})
				brokertest.WantKind(t, <-reading.stopped, compute.KindForbidden)
			})
		})
	}
}

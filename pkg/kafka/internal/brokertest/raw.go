// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/wire"
)

// PutRaw writes a batch as it is.
func PutRaw(t *testing.T, cfg kafka.Config, topic string, partition int32, batch []byte) {
	t.Helper()
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	m, err := Describe(Patient(t), cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, m.TopicID, append(rt.Partitions, rp)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Topics = -1, 10_000, append(req.Topics, rt)
	at := slices.IndexFunc(m.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
		return p.Partition == partition
	})
	leader := m.Partitions[at].Leader
	for ctx := Patient(t); ; {
		resp, err := req.RequestWith(ctx, cl.Broker(int(leader)))
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err == nil {
			return
		}
		late := errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.UnknownTopicOrPartition) ||
			errors.Is(err, kerr.UnknownTopicID) // a broker hears late of a new topic
		if !late || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TooLarge checks that a record stands for a batch that unpacks to too much.
func TooLarge(t *testing.T, rec wire.Record, offset int64) {
	t.Helper()
	if rec.Unread == nil || rec.Offset != offset || !strings.Contains(rec.Unread.Error(), "unpacks to more than") {
		t.Errorf("%+v", rec)
	}
	if _, err := wire.DecodeRequest(rec); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("decoded as %v", err)
	}
}

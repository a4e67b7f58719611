// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/batch"
	"github.com/berth-project/berth/pkg/wire"
)

// SpoiltAnswer answers a fetch with a batch that is not as it was written.
func SpoiltAnswer(req *kmsg.FetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			batch := batch.Encode(
				batch.Writer{Producer: -1, Epoch: -1}, []wire.Record{{Key: []byte("k"), Value: []byte("1")}},
				time.Now(),
			)
			batch[7], batch[len(batch)-1] = byte(p.FetchOffset), batch[len(batch)-1]^1
			rp.Partition, rp.RecordBatches, rp.HighWatermark = p.Partition, batch, p.FetchOffset+1
			rp.LastStableOffset = rp.HighWatermark
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

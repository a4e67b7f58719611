// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The cases in here are those of a log that lost what had been read from it: another
// broker leads, which did not have all of it (an unclean election), and others have
// written since, so that the offset to read on at is in the log again (KIP-320).

// AnotherHistory makes brokers answer each fetch that says what it read last that the
// log is another from the last record that was read on; of these topics, or of all if there are none.
func AnotherHistory(cluster *kfake.Cluster, topics ...string) {
	ids := map[[16]byte]bool{}
	for _, topic := range topics {
		ids[cluster.TopicInfo(topic).TopicID] = true
	}
	cluster.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := k.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.TopicID = t.TopicID
			for _, p := range t.Partitions {
				if p.LastFetchedEpoch < 0 || len(ids) > 0 && !ids[t.TopicID] {
					continue
				}
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.HighWatermark = p.Partition, p.FetchOffset
				rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = p.LastFetchedEpoch, p.FetchOffset-1
				rt.Partitions = append(rt.Partitions, rp)
			}
			if len(rt.Partitions) > 0 {
				resp.Topics = append(resp.Topics, rt)
			}
		}
		return resp, nil, len(resp.Topics) > 0
	})
}

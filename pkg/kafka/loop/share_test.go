// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

// A partition with more inputs than a turn takes leaves room for the others in every turn, and nothing comes out of
// order.
func TestAFloodedPartitionLeavesRoom(t *testing.T) {
	const partitions, flooded, most = 8, 3, 100
	in := newInputs(nil, [inputTopics]*fetch.Source{{}, {}}, zap.NewNop(), most)
	next := map[string]int64{}
	put := func(topic int, p int32, n int) {
		f := in.feeds[inputKey{topic, p}]
		for range n {
			f.buffer = append(f.buffer, wire.Record{Topic: fmt.Sprint(topic), Partition: p, Offset: f.Next})
			f.Next++
		}
		in.buffered += n
	}
	for p := range int32(partitions) {
		in.add(p, position{})
	}
	put(requests, flooded, 50*most)
	for turn := range 3 * partitions {
		for p := range int32(partitions) {
			put(reports, p, 1)
		}
		recs, of := in.next(most)
		if len(recs) != most || len(of) != partitions {
			t.Fatalf("turn %d: %d records of partitions %v", turn, len(recs), of)
		}
		for _, rec := range recs {
			k := fmt.Sprintf("%s/%d", rec.Topic, rec.Partition)
			if rec.Offset != next[k] {
				t.Fatalf("turn %d: offset %d of %s after %d", turn, rec.Offset, k, next[k]-1)
			}
			next[k]++
		}
	}
}

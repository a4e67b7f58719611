// SPDX-License-Identifier: Apache-2.0

package franz

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/unpack/unpacktest"
)

// What cannot be read of one partition says nothing about another.
func TestOnePartIsBad(t *testing.T) {
	good := unpacktest.Batch(kgo.CodecNone, 5, 1, unpacktest.Records([]byte("value")), nil)
	bad := append([]byte(nil), good...)
	bad[len(bad)-1]++ // its checksum is wrong now
	answer := kmsg.NewFetchResponseTopic()
	for p, batch := range [][]byte{bad, bad, good} {
		part := kmsg.NewFetchResponseTopicPartition()
		part.Partition, part.RecordBatches, part.HighWatermark, part.LastStableOffset = int32(p), batch, 6, 6
		answer.Partitions = append(answer.Partitions, part)
	}
	resp := &kmsg.FetchResponse{Topics: []kmsg.FetchResponseTopic{answer}}
	parts := (&adapter{}).parts("instances", resp, map[int32]int64{0: 5, 1: 5, 2: 5})
	if len(parts) != 3 || parts[0].Err == nil || parts[1].Err == nil || parts[2].Err != nil {
		t.Fatalf("%+v", parts)
	}
	if spans := parts[2].Spans; len(spans) != 1 || len(spans[0].Records) != 1 {
		t.Errorf("%+v", spans)
	}
}

// What the others of an answer have left no room for is not read: it has no span, which would end where it begins.
func TestAPartWithoutRoom(t *testing.T) {
	part := kmsg.NewFetchResponseTopicPartition()
	part.RecordBatches = unpacktest.Batch(kgo.CodecNone, 5, 1, unpacktest.Records([]byte("value")), nil)
	part.HighWatermark, part.LastStableOffset = 6, 6
	got := (&adapter{}).parse("instances", &part, 5, new(unpack.Room))
	if got.Err != nil || len(got.Spans) > 0 || got.Empty {
		t.Errorf("%+v", got)
	}
}

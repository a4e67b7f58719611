package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/wire"
)

// errNoRecord is the error of an acquired offset where the log has no record.
var errNoRecord = errors.New("there is no record at the acquired offset")

// decodeRecord finds the record at an offset in the batches of an answer. A
// batch is sent as it was written: it may hold records that are others'.
func decodeRecord(topic string, batches []byte, offset int64, d kgo.Decompressor) (*wire.Record, error) {
	part := kmsg.NewFetchResponseTopicPartition() // share fetches answer in the same format
	part.RecordBatches = batches
	fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Offset: offset}, &part, d, nil)
	for _, r := range fetched.Records {
		if r.Offset == offset {
			rec := fromKgo(r)
			return &rec, nil
		}
	}
	if fetched.Err != nil {
		return nil, fetched.Err
	}
	return nil, errNoRecord
}

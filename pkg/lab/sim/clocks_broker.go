// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// startBroker starts the broker. Its topics have the time at which it appends a record, as those that
// Berth makes on Kafka (message.timestamp.type=LogAppendTime): kfake goes by what the producer's batch
// says, and leaves the producer's own time there.
func (w *play) startBroker() error {
	if err := w.broker.start(); err != nil {
		return err
	}
	w.broker.mu.Lock()
	defer w.broker.mu.Unlock()
	w.broker.now.Observe(kmsg.Produce, appendTime)
	return nil
}

// appendTime has the broker give all records its own time. It puts that time there itself,
// too: kfake does not reckon the checksum anew, and does this at the same moment of the bubble.
func appendTime(req kmsg.Request) {
	for _, t := range req.(*kmsg.ProduceRequest).Topics {
		for _, p := range t.Partitions {
			stamp(p.Records, time.Now())
		}
	}
}

// stamp changes a batch so that it has been appended at a time. What is no batch, or is spoilt,
// the broker is to see as it is.
func stamp(batch []byte, at time.Time) {
	const (
		sumAt, attributesAt, firstAt, lastAt = 17, 21, 27, 35
		logAppendTime                        = 0x08
	)
	table := crc32.MakeTable(crc32.Castagnoli)
	if len(batch) < batchHeader ||
		binary.BigEndian.Uint32(batch[sumAt:]) != crc32.Checksum(batch[attributesAt:], table) {
		return
	}
	batch[attributesAt+1] |= logAppendTime
	for _, place := range []int{firstAt, lastAt} {
		binary.BigEndian.PutUint64(batch[place:], uint64(at.UnixMilli()))
	}
	binary.BigEndian.PutUint32(batch[sumAt:], crc32.Checksum(batch[attributesAt:], table))
}

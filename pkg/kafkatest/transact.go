// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"runtime"

	"github.com/twmb/franz-go/pkg/kgo"
)

// EndTransaction ends the open transaction of a client that has written to
// partition 0 of a topic or to others of it.
//
// What is written first to a topic may be acknowledged before franz-go has noted
// the topic's partitions; a transaction that is committed in that moment has none,
// and franz-go aborts it and says that all is well.
func EndTransaction(ctx context.Context, client *kgo.Client, topic string, commit kgo.TransactionEndTry) error {
	for {
		leader, _, err := client.PartitionLeader(topic, 0)
		if err != nil {
			return err
		}
		if leader >= 0 {
			return client.EndTransaction(ctx, commit)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		runtime.Gosched() // a moment: the answer of the broker is there
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package follow reads the instances of a cell through a Kafka client that the
// caller already has. The adapters are franz (twmb/franz-go), sarama
// (IBM/sarama) and kafkago (segmentio/kafka-go); each makes a Follower.
//
// A follower hands over the last word on every instance there is, says when it
// has caught up, and then every change as it is committed. It reads the
// compacted topic by itself, without a consumer group: nothing rebalances, and
// every node that follows sees all. What was written by a transaction that was
// aborted, or is not decided yet, is never handed over, whichever the client:
// the adapters only ask brokers, what to make of the answers is decided here
// (docs/decisions/0013).
package follow

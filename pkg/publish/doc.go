// SPDX-License-Identifier: Apache-2.0

// Package publish writes requests to Berth through a Kafka client that the
// caller already has. The adapters are franz (twmb/franz-go), sarama
// (IBM/sarama) and kafkago (segmentio/kafka-go); each makes a Publisher.
//
// What is published is the same whichever client carries it, byte for byte:
// key, value, headers, partition. A request that Berth could not read is
// refused here, before it is sent. A program without a Berth package publishes
// JSON, as docs/PUBLISHING.md says.
//
// A boot names its instance (NewID makes a name). That is what makes every
// repeat harmless: after an error of KindTimeout or KindUnavailable the same
// request may be published again, by anybody, any number of times, and there
// is still one machine.
package publish

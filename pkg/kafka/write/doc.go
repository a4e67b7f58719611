// SPDX-License-Identifier: Apache-2.0

// Package write writes records that must not be lost.
//
// A Producer's record is in the log, on all replicas in sync, once Send answers nil (TestProducerTriesAgain); records
// for one partition arrive in the order in which they were given (TestProducerKeepsTheOrder), except those that are
// tried again after a refusal. A record that no broker takes fails alone, with KindInvalid
// (TestARefusedRecordHarmsNobody); one for a topic that is gone fails with wire.ErrNoTopic
// (TestSendToATopicThatIsNotThere). After KindUnavailable a record may be written and after KindTimeout nobody knows:
// receivers tolerate doubles. SendAsync never blocks (TestSendAsyncNeverBlocks).
//
// A Reporter promises the same for few records at a time and asks brokers for less: it goes directly to leaders that
// the process knows, and leaves to a Producer what gave trouble (TestReporterPassesEveryError of pkg/kafka).
package write

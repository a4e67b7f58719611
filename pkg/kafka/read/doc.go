// SPDX-License-Identifier: Apache-2.0

// Package read reads topics without a consumer group: the table behind a compacted topic, or the tail of a stream.
//
// A Reader hands over every record of its partitions in order, and says when it has caught up
// (TestReaderReadsAllThenTheTail). Errors that pass are tried again without end (TestReaderPassesEveryError). It ends
// with KindForbidden where ACLs refuse it (TestReaderEndsWhereItIsForbidden), and with KindConflict when the topic
// was made again or lost records that had been handed over (TestReaderEndsWhenTheLogIsAnother): a leader that says so
// is believed only if other brokers say that it leads (TestWhoLedBeforeIsNotBelieved). After Sync the receiver has
// everything that was acknowledged to anybody before the call.
//
// A SharedFetch lets several readers of a process share one open fetch at each broker (TestSharedReaders).
package read

// SPDX-License-Identifier: Apache-2.0

// Package loop runs a wire.Handler over the partitions that a consumer group gives to this process.
//
// What the handler decides about a partition is in instances exactly once, in order, whichever process owned the
// partition when (TestLoopExactlyOnceThroughDeaths). A process that has lost a partition writes nothing to it and
// publishes nothing more of it (TestDeposedConductorPublishesNothing). A timer fires only behind everything that was
// in the log when it came due (TestTimerWaitsForWhatWasInTheLog). A broker's error undoes the turn of the partition
// that it hit, and no other (TestTurnsPassEveryError). A partition with a position behind the end of an input is set
// aside, that one alone, until ResetPosition (TestPartitionIsSetAside).
//
// Run ends by itself only for what trying again cannot cure: KindForbidden, or KindConflict where the topics are not
// what they must be.
package loop

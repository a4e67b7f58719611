// SPDX-License-Identifier: Apache-2.0

// Package share pulls work from share-group queues (KIP-932), one record at a time, without being a member of any
// group: docs/decisions/0047 says why it is no client library's consumer.
//
// Each record goes to one puller at a time (TestPulledOnceAndOneAtATime) and is that puller's until it is
// acknowledged, or its lock ends, or the session that brought it is lost; nothing that was acquired stays behind
// unseen (TestNothingAcquiredIsLost). Any error of a session ends the session and what it held, and the next Open
// begins another (TestErrorsOfSessions). An acknowledgement is sent once at most and its outcome may stay unknown:
// the conductor's record says which host has the work. Open answers exactly one result; Place's error joins one a
// queue, KindNotFound, KindConflict or KindUnavailable (TestPlace).
package share

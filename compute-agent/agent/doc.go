// SPDX-License-Identifier: Apache-2.0

// Package agent is the host's own part of Berth: it offers what is free, takes
// work, prepares, claims, launches what was granted, ends what it is told to
// end, and says what is true.
//
// One goroutine owns all that is known (loop); everything slow (the hypervisor,
// Kafka) happens in others, which bring their results back to it. Decisions are
// made by the cores: package task for one instance, package offer for what to
// wait on. Nothing is done before it is written to the journal.
package agent

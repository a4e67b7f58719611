// SPDX-License-Identifier: Apache-2.0

// Package agent is the host's own part of Berth: it offers what is free, takes
// work, prepares, claims, launches what was granted, ends what it is told to
// end, and says what is true.
//
// One goroutine owns all that is known (loop); everything slow (the hypervisor,
// Kafka) happens in others, which bring their results back to it. Decisions are
// made by the cores: package task for one instance, package offer for what to
// wait on. Nothing is done before it is written to the journal.
//
// The loop has parts with state of their own, which decide what they can without it: starts (guards of the host and
// of its images), twins (other agents that speak for the host), unwritten (what the journal does not have yet),
// reports (what is to be said), beacons, polls (when the hypervisor is asked), calls (what it is doing), drain,
// consoles, and arrival (what becomes of work that came). What the host waits on is package fetch.
package agent

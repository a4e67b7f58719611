// SPDX-License-Identifier: Apache-2.0

// Package fleet plays hosts that choose what to fetch (compute-agent/fetch) beside a queue manager that rings them
// (queues/ring), advises them (queues/advise) and has them save room (queues/save), in one goroutine, without Kafka,
// conductors and processes: some thousand worlds a second, where the simulation plays three. It looks for one kind of
// fault: work waits, and a host that has room for it and may have it does nothing.
package fleet

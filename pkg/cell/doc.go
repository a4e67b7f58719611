// SPDX-License-Identifier: Apache-2.0

// Package cell puts the parts of Berth together: an API node, a queue manager, a
// conductor, a host's agent, or all of them in one process. Each New… joins what
// knows no Kafka (flavors, queues, conductor, compute-agent) with the readers,
// producers and clients that feed it, and answers a service.Part: nothing runs
// before its Run, it says when it is ready, and it may be stopped at any time.
//
// The daemons of cmd/berth, the laboratory and the tests of the whole (pkg/celltest)
// stand on it. It reads no flags and exits no process; the settings that all parts of
// a cell share (KafkaSettings) are the only ones it knows.
package cell

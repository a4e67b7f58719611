// SPDX-License-Identifier: Apache-2.0

// Package conductor is the shell around the admit core: records in, records
// out. It decodes what users and agents write, lets each partition decide, and
// encodes what was decided. It knows no Kafka: a loop calls it as a wire.Handler,
// readers feed its views, and the start offsets of queues are asked through
// QueueStarts.
//
//	requests, reports ──▶ Turn ──▶ admit.State of the partition ──▶ Result
//	                       ▲
//	catalog, queues ─┐     │ taken in at the beginning of a turn,
//	advice, hosts ───┴▶ inbox   so that everything is decided by one goroutine
//
// Of a host it keeps its name and its journal's id, nothing else: no decision
// here could look at what a host has free.
package conductor

// SPDX-License-Identifier: Apache-2.0

// Package size says what a cloud of a given size would ask of Kafka and of
// conductors: how long until everything is granted, what is busiest, and how many
// cells are needed. It is a model in discrete time: events in a heap, no clock, no
// I/O, the same answer for the same options.
//
// What decides is the real thing where that is affordable for 100,000 hosts: room and
// what may be fetched beside it (offer.Room, offer.Plan), the chance of a sample and the
// weigher (offer.Share, offer.Chance), advice and its rule of news (advise.Advisor).
// What Kafka and the processes cost is a constant a request, see Costs and
// docs/SIZE.md. Left out: failures, deletes, deadlines, quotas, traits, secondary
// share sessions.
package size

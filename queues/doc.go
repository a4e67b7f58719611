// SPDX-License-Identifier: Apache-2.0

// Package queues is the queue manager: it makes one queue for each flavor and
// choice of capabilities, ends those no longer wanted, makes each host's
// command stream, tells agents how much work and how many hosts there are, and
// removes the records of finished work.
//
// What to do is decided by the cores: package plan (which step next) and
// package advise (what to tell). This shell reads, asks them, and does it.
//
// # One works, others stand by
//
// Every manager reads; only the elected one writes. An election is no fence: a
// manager that lost it may notice late, and what it sent may arrive later
// still. So everything it does must be harmless when done by two, or late:
//
//   - CreateTopic, host topics: making what exists changes nothing.
//   - List, Close, Unlist: records that follow from the catalog and Kafka. A
//     stale one is found and written over by the next look of the active one.
//   - DeleteTopic: names the topic id, so a queue made anew survives it. Not
//     before its queue was closed for CloseFor and no instance names it. A boot
//     is decided by a catalog that was heard of up to 25 s ago, and may take 20 s
//     to be written (the conductor's CatalogAge, SyncTimeout and syncRetryAfter, and
//     the loop's DefaultTurnTimeout), and its turn may wait for the hosts topic for
//     another SyncTimeout: CloseFor is longer, lest one that was taken comes when
//     its queue is gone.
//   - DeleteBelow: never above the share start offset that is written down, which
//     only rises.
//   - Advice: the reader takes the newest; it is only advice.
//   - InitShare: the one that harms. On a queue in use it answers that all is
//     well, and at the next change of leader finished work comes back (hosts
//     are then denied: never two machines, but work for nothing). Therefore:
//     share state is asked for in the same pass, right before; a topic id found
//     initialised is never touched again; a topic that was there when this
//     manager was elected is not initialised before Settle has passed, in which
//     whatever another sent has arrived or died; after a failure whose outcome
//     is unknown, the same. A topic made in this manager's own time needs no
//     such wait, so a new cell is up at once.
package queues

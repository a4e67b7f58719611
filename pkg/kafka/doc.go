// SPDX-License-Identifier: Apache-2.0

// Package kafka makes Berth's clients of Kafka: the settings that all of them share, security, what their errors
// mean, and what a process knows and logs of its brokers. What is done with a client is in the folders below it:
//
//	write  Producer and Reporter: records, acknowledged by all replicas in sync
//	read   Reader: a topic without a group; it knows when it has caught up
//	loop   Loop: runs a wire.Handler, one fetch a turn and one batch a partition
//	share  Puller: takes work from share-group queues, one record at a time
//	admin  Admin: makes and removes topics, initialises share state exactly once
//	elect  Elector: one process out of several
//
// These folders are the only importers of franz-go outside of tests, adapters and the embedded broker. Each part has
// its own connections and needs nothing but a Config. None keeps anything outside of itself, so that any number of
// them can start and stop in one process.
//
// # Errors
//
// Errors of all of them are *compute.Error (Classify): KindUnavailable when trying again may help, KindTimeout when
// the outcome is unknown, KindForbidden when Kafka's ACLs say no, KindConflict when what is there contradicts what is
// asked for. A topic that is not there is wire.ErrNoTopic. docs/KAFKA-ERRORS.md says what each part does at each
// error.
//
// # Promises
//
// A client leaves a broker that is frozen, and not only one that is dead, as soon as the other brokers count it among
// the dead (TestFrozenBrokerIsDropped), and a caller that gives up does not wait for one
// (TestFrozenBrokerHoldsUpNobody). However many clients notice an outage, the log has one line at its beginning, one
// a minute and one at its end (TestAnOutageIsToldOnce). A process that starts asks brokers about the cell once
// (TestFirstMinuteOfClients).
package kafka

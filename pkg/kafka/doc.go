// Package kafka is how Berth talks to Kafka, and the only importer of franz-go
// outside of tests, adapters and the embedded broker.
//
//	Producer  writes records, acknowledged by all replicas in sync
//	Reader    reads a topic without a group, knows when it has caught up
//	Loop      runs a wire.Handler: one fetch a turn, one batch a partition
//	Puller    takes work from share-group queues, one record at a time
//	Admin     makes and removes topics, initialises share state exactly once
//
// Each has its own connections and needs nothing but a Config. None keeps
// anything outside of itself, so that any number of them can start and stop in
// one process.
//
// Errors are *compute.Error: KindUnavailable when trying again may help,
// KindTimeout when the outcome is unknown, KindForbidden when Kafka's ACLs say
// no, KindConflict when what is there contradicts what is asked for. A topic
// that is not there is wire.ErrNoTopic.
package kafka

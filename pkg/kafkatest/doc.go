// Package kafkatest runs real Kafka brokers for tests and benchmarks: the jars
// come from Maven Central into the user's cache once, the brokers run on free
// loopback ports and never outlive the process that started them.
//
// A suite that must hold on the embedded broker and on Kafka is written once
// and run by Each.
package kafkatest

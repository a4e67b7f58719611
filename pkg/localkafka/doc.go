// SPDX-License-Identifier: Apache-2.0

// Package localkafka runs real Kafka brokers as children of this process, for
// tests and benchmarks: the jars come from Maven Central into the user's cache
// once, the brokers run on free loopback ports and never outlive the process
// that started them.
package localkafka

// SPDX-License-Identifier: Apache-2.0

// Package kafkatest gives tests brokers: an embedded one, or real Kafka as
// pkg/localkafka runs it.
//
// A suite that must hold on the embedded broker and on Kafka is written once
// and run by Each.
package kafkatest

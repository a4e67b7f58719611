// SPDX-License-Identifier: Apache-2.0

// Package brokertest has what the tests of Kafka's clients share: cells on brokers of all kinds, brokers that refuse,
// and metrics that are waited for.
package brokertest

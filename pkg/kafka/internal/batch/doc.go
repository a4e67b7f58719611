// SPDX-License-Identifier: Apache-2.0

// Package batch makes record batches as Kafka stores them.
package batch

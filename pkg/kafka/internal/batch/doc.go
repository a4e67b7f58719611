// Package batch makes record batches as Kafka stores them.
package batch

// SPDX-License-Identifier: Apache-2.0

// Package forward hands on what changes of instances to somebody's HTTPS address, a web hook: for programs that keep an
// inventory or make bills, and should know nothing of Kafka.
//
// It follows an API node's events and posts them in batches, as CloudEvents 1.0 in JSON, signed as Standard Webhooks has
// it. What is not answered with 2xx is posted again, for ever, and nothing behind it is posted before: the receiver gets
// all that passes the filters, in the order of the log for each project, and sometimes twice, with the same id. How far
// the receiver has taken it is kept in a file, as a position of the log, so a forwarder that is started again, at any
// API node, goes on behind it.
package forward

// SPDX-License-Identifier: Apache-2.0

// Package fetch reads partitions where they are led, for readers and loops: which broker leads which partition of a
// topic (Source), how far each has been read (Cursor), and one fetch at one broker (Request).
//
// A Source believes no leader that says that records are lost before it has asked other brokers for the leader.
package fetch

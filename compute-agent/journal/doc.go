// SPDX-License-Identifier: Apache-2.0

// Package journal is what this host has taken, written down before it is acted
// upon: one entry for each instance, how far the host's stream has been read,
// what the operator wants of the host, and how the last claims ended that are
// over.
//
// It is one bbolt file, synced with every Write. Values are JSON, each with the
// version of its form ("v"), so that tomorrow's agent reads today's file and an
// operator can look into it; a form of a later version is refused, not guessed
// at. The file is locked while it is open: one agent process a host.
package journal

// SPDX-License-Identifier: Apache-2.0

// Package unpack reads record batches as brokers send them, and bounds what they
// become in memory.
//
// Brokers bound what is sent, not what it unpacks to: 128 KB of zstd may hold
// 1 GiB, and a record of seven bytes takes some 300 as two structs. So two things
// are bounded here: what one batch may become (MostOfBatch), and what all batches
// of one answer may become together (MostOfAnswer); what is beyond the second is
// left, and asked for again.
//
// A batch that is too large, or whose contents are not what its header says, is
// unreadable to everybody and for ever: the checksum says that it is as its
// producer wrote it. In its place comes one record that says why (wire.Record's
// Unread), and reading goes on behind it. A batch whose checksum is wrong is
// another matter: what was written there may have been good, so nobody passes it.
package unpack

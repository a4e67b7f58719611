// SPDX-License-Identifier: Apache-2.0

// Package flavors keeps what operators offer: it reads the catalog topic into
// memory, answers from there, and writes changes that package catalog accepts.
// The API daemon runs it.
//
// # Two API nodes at once
//
// The topic has no single writer. Changes of one process go one after the
// other; between processes the order in the log decides. Each change is
// checked against everything written before it began, and carries an id. When
// it comes back from the log and something else was written in between, the
// change is looked at again in its real place: if it overwrote somebody's
// change of the same entry, or made a catalog that does not fit together, it is
// taken back and refused as a conflict. So of two changes that do not go
// together the later one loses. What remains: a process that dies between the
// two writes leaves the later change standing. Readers live with that
// (a flavor's unknown axes make no queues), Problems shows it, and any change
// that repairs it is accepted.
package flavors

// SPDX-License-Identifier: Apache-2.0

// Package sim plays whole Berth in one process and in virtual time: the real
// parts on an embedded broker over a network in memory, with faults from a
// schedule, in a testing/synctest bubble. What happened is written down from
// outside and then judged: what PROTOCOL.md promises must hold whatever went
// wrong. docs/SIMULATION.md says how to use it.
//
// It has more files than other packages: each kind of fault and each check has one of its own, and all of
// them work on one play and one recording.
package sim

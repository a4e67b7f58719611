// SPDX-License-Identifier: Apache-2.0

// Package sim plays whole Berth in one process and in virtual time: the real
// parts on an embedded broker over a network in memory, with faults from a
// schedule, in a testing/synctest bubble. What happened is written down from
// outside and then judged: what PROTOCOL.md promises must hold whatever went
// wrong. docs/SIMULATION.md says how to use it.
//
// Its parts: schedule has what is played, network what is between the processes, judge the recording and
// the checks. This package plays: it starts and ends processes, brokers, clients and faults.
package sim

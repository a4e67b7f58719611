// Package sim plays whole Berth in one process and in virtual time: the real
// parts on an embedded broker over a network in memory, with faults from a
// schedule, in a testing/synctest bubble. What happened is written down from
// outside and then judged: what PROTOCOL.md promises must hold whatever went
// wrong. docs/SIMULATION.md says how to use it.
package sim

// SPDX-License-Identifier: Apache-2.0

// Package admit decides for one partition of projects: what is admitted, which
// host an instance belongs to, when it is tried again and when it is over. It is the centre
// of the protocol and the only place where an instance's record is made.
//
// It is pure: the time is an argument, everything it hears is an Input and all
// it wants done is in the Output. Step changes the State in memory only; the
// caller writes Output.Changed and only then carries out Output.Effects. If it
// cannot write, it drops the State and loads another one from what is written.
//
//	input ──▶ Step(input, view, now) ──▶ changed records, effects, rejection
//	              │
//	            State: records, usage, timers, which instance is on which host,
//	                   what waits where in which queue
//
// What follows from a record is a function of the record alone (Effects), so
// that the next owner of the partition can do it again. What is kept beside the
// records (where a publication landed, when a host was heard, when something
// was last said) is begun anew with every load and never decides which host
// an instance belongs to.
package admit

// SPDX-License-Identifier: Apache-2.0

// Package explain answers why a machine is where it is, or is not placed: what every host is to it, what is short and
// by how much, what happens next, and what the asker can do. It says likewise what would become of machines that nobody
// has booted, of several kinds at once (Fill, TellMix), and how much room there is (PoolOf). It works all of it out from
// what hosts said last, and nothing is placed by it.
//
// It is a function of what it is given: it has no clock and asks nobody.
package explain

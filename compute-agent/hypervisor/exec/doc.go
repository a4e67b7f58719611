// SPDX-License-Identifier: Apache-2.0

// Package exec runs machines through a command of the operator's own: a script
// that switches servers on and off, say. What the command is asked and has to
// answer is in deploy/exec/README.md, with a sample beside it.
//
//	command… VERB [INSTANCE]     stdin: lines of JSON; stdout: one JSON document
//
// The driver keeps nothing in memory that matters: before each call it asks the
// command what there is, refuses what does not fit, and afterwards asks whether
// it is so. What only the command can hold is that a call which was broken off
// anywhere can be made again.
package exec

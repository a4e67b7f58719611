// SPDX-License-Identifier: Apache-2.0

// Package schedule has the simulated histories: what there is, what is asked, and what goes wrong, as
// plain data that a file can keep. Generate makes one of a seed, Shrink makes it smaller, and facts.go
// says what may follow from one, which the checks of pkg/lab/sim/judge go by. It runs nothing.
package schedule

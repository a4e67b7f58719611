// SPDX-License-Identifier: Apache-2.0

// Package judge has the recording of a simulated history, which is written down from outside, and the
// checks: each says where a recording breaks a promise of docs/PROTOCOL.md or docs/STATES.md. It
// knows schedules and records, and nothing of what plays them.
//
// It has a file more than other packages since each group of checks has one of its own.
package judge

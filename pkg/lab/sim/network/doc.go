// SPDX-License-Identifier: Apache-2.0

// Package network is what a simulated process has between itself and all others: a Link for each life
// of a process, whose connections can be held up, cut, refused and slowed down, for one broker too,
// and traps that spring when the process comes to a point for the nth time.
package network

// SPDX-License-Identifier: Apache-2.0

// Package mixed decides what a bench of a mixed load sends and sums up what it found: machines of several sizes that
// live for a while, some of them of high or low priority, some members of groups, on hosts that are nearly full.
//
// It is pure: package bench sends, deletes and reads the clock.
package mixed

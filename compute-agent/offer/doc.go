// SPDX-License-Identifier: Apache-2.0

// Package offer decides what a host waits on: what is free, which queues have work that fits, on which of them to
// wait, and what may be fetched at once so that whatever comes fits.
//
// It decides and does nothing: time is an argument, and so is everything else.
package offer

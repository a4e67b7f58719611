// SPDX-License-Identifier: Apache-2.0

// Package events tells listeners what changes of instances, as an API node reads it from the log.
//
// A Log keeps the newest changes in memory, bounded by their number. Each Listener has a place in it and takes what
// comes at its own pace: whoever appends waits for no listener, and a listener has no buffer of its own but the few
// events that it takes at a time. What a listener is told is exactly what it wants, each change once,
// those of a partition in the order of the log; or it is told that there may be a gap, and where it goes on.
//
// A place is a position in each partition that the listener follows (ID), so any node can go on where another
// one stopped: docs/decisions/0056 says why.
//
// Nothing here reads a clock or waits.
package events

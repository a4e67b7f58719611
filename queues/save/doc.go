// SPDX-License-Identifier: Apache-2.0

// Package save decides which hosts save room for large work.
//
// Where hosts are full, each processor that becomes free is taken by small work at once, and work that needs eight of
// them never finds eight together on one host. So one host keeps what becomes free on it for work that has waited
// longest, until that fits or the time is over:
//
//	a build has waited After, no host fits it      one host begins to save for it: of those that would fit it when
//	                                               emptier the one that has the largest share of it free
//	the host has taken it, or it has gone          the host saves no more
//	it has saved for For, and no machine goes      in vain: the queue has no host save for a while, For after the first
//	                                               time and twice as long after each, up to MostPause
//
// A host on which preemptible machines run may have some of them taken away for work of a class above the low one, and
// goes before others then: the work need not wait until machines end. It is told so (Look.Preempt), and chooses which.
// Whether it can is known by sums only, so it goes before others once, until it has saved for the queue in vain. A
// saving for which machines go lasts for as long as their guests may have to stop, beyond For. What a host prepares or
// has claimed without an answer is queued, too: beacons say how much that is, and no room is made for so many of a
// queue's first builds. None go for a placeholder of a reservation, which may stand empty, nor for work behind one in
// the same queue: that would have the room.
//
// At most one host in Share saves at a time, and one in any case; the work that has waited longest comes first. Those
// that say that machines go, or that they have the room, are not counted: nothing lies idle there. A host saves for one
// queue at a time.
//
// All of it are hints, as rings are: the host decides by what it has. Two queue managers that choose at once may have
// room made twice for the same work, since what has notice goes. Since when a build waits is told by the clock of the
// process that asks, so a queue manager that has been elected waits After anew; hosts that save already it finds by
// their beacons.
package save

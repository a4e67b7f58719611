// SPDX-License-Identifier: Apache-2.0

// Package ring decides which hosts the queue manager rings, and for which queues.
//
// A ring tells a host by name to look at a queue, or to wait on it for a while
// (compute.Look). It is a hint and no more: the host decides by what it has, the
// queue's lock hands the work to one host only, and the conductor's grant decides
// which host has it. A ring that is lost, late or wrong costs time, so nothing here has to
// be right, and two queue managers that ring at once do no harm.
//
// For each queue with work that no host has claimed, so many hosts are kept rung:
//
//	D published builds, none claimed yet:  min(First·D, 2·Batch + D/Batch)
//	each time in vain:                     First more, then twice as many
//
// A ring counts until it should have led to a claim: four times as long as claims take
// lately, between Soonest and Latest. After that others are rung in its place, and
// each round in vain waits twice as long as the one before: work may simply take long
// to prepare, which nobody but its host knows.
//
// A queue into which work comes often is not rung for each build. Hosts are rung to
// wait on it (a hold), exactly as many as should, redrawn as they fill up:
//
//	r builds a second, each host with room for m:  Spare + r·max(Away, Refresh/m)
//
// A host is held on few queues at once, on fewer where hosts are many, since what a
// fetch that ends costs a broker goes with the square of the queues that each lists.
package ring

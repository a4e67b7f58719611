// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// The types below are how a handler (the conductor) and the loop that runs it
// over Kafka (pkg/kafka) meet without knowing each other: records in, records out.

// Turn is what a handler gets at once: everything its partitions had, in order
// within each partition.
type Turn struct {
	Now     time.Time
	Records []Record // of requests and reports
	// TimersUntil lists the partitions whose inputs have been read up to the
	// end they had at that time: timers due by then may fire, no others. A
	// report in the log so always beats a time-out.
	TimersUntil map[int32]time.Time
	Sent        []Sent // what became of effects of earlier turns
}

// Result is what a handler answers to a Turn.
type Result struct {
	// Rejects are sent and acknowledged before Changes are written, so that
	// no input is passed over without its record in the rejected topic. Partition
	// is that of the input.
	Rejects []Record
	// Changes go to the instances topic, those of a partition together with the
	// position behind its inputs: all of that or nothing. Partition is set on each; Topic need not be.
	Changes []Record
	// Effects are published after that, those of a partition in order, and only once
	// it is sure that nobody else owned it when they were decided. They may be
	// lost or doubled when the process dies; the next owner sends them again.
	Effects []Effect
	// Aside, of Restored alone, is why the handler cannot decide about the partition,
	// with what to do about it; nil: it can. Then the partition is set aside, and nothing else
	// of the result counts.
	Aside *compute.Error
	// Wake is when the next timer of any partition is due; zero if there is none.
	Wake time.Time
	// Committed, if set, is called for each partition that has any of these once its
	// Rejects are acknowledged and its Changes are written, before its Effects are
	// published; never for one whose part of the turn is undone.
	Committed func(partition int32)
}

// Effect is a record to publish once the turn that made it is written.
type Effect struct {
	Partition int32  // the instances partition it follows from
	Record    Record // Topic and Partition set
	Tag       any    // comes back in Sent; nil if the handler need not know
	Final     bool   // its input must not be decided again, and may: it is repeated if this is lost
}

// Sent says what became of an effect that carried a tag.
type Sent struct {
	Tag    any
	Offset int64 // where it was written; meaningless with Err
	Err    error // ErrNoTopic if its topic is gone; otherwise retries were exhausted
}

// Handler decides; a loop reads, calls it and writes. All calls come from one
// goroutine. Order for a partition: Gain, Restore…, Restored, (Turn…), Lose.
// After Lose the handler has forgotten the partition; it may be gained again.
type Handler interface {
	// Gain begins partition p with nothing known of it.
	Gain(p int32)
	// Restore hands over one record of the instances topic, in order.
	Restore(p int32, rec Record)
	// Restored says that everything committed before was handed over. Effects of
	// records at or behind cursor may never have been published: they are
	// answered, and published before anything newer. cursor < 0: unknown, so all.
	Restored(p int32, cursor int64, now time.Time) Result
	// Lose drops p: somebody else owns it now, or what a turn decided of it was not
	// written, and what the handler believes about p is not what the log says.
	Lose(p int32)
	// Turn decides. It must not block on anything outside the process for long.
	Turn(in Turn) Result
}

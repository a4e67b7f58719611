// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

// feed is how far one partition of one topic has been read.
type feed struct {
	fetch.Cursor
	buffer  []wire.Record     // read, and not taken yet
	epochs  []fetch.WrittenBy // of the leaders that wrote what lies before position, and what was read; -1: not known
	beyond  *fetch.BeyondEnd  // its position seems to lie behind the end: it is not fetched until that is known
	corrupt int               // how often in a row what comes next could not be read
}

// position is the offset of the first record that was not taken: what a commit
// of everything taken says.
func (f *feed) position() int64 {
	if len(f.buffer) > 0 {
		return f.buffer[0].Offset
	}
	return f.Next
}

// shift takes the first of what was read, n records at most.
func (f *feed) shift(n int) []wire.Record {
	n = min(n, len(f.buffer))
	first := f.buffer[:n]
	if f.buffer = f.buffer[n:]; len(f.buffer) == 0 {
		f.buffer = nil
	}
	return first
}

// wrote is the epoch of the leader that wrote the last record before the position.
func (f *feed) wrote() fetch.Epoch {
	f.forgetEpochs()
	if len(f.epochs) == 0 || f.epochs[0].From >= f.position() {
		return fetch.Epoch{}
	}
	return fetch.EpochOf(f.epochs[0].Number)
}

// forgetEpochs forgets those of before the last record before the position.
func (f *feed) forgetEpochs() {
	for len(f.epochs) > 1 && f.epochs[1].From < f.position() {
		f.epochs = f.epochs[1:]
	}
}

// advance moves the feed over what was fetched.
func (f *feed) advance(part fetch.Part) {
	f.forgetEpochs()
	before, epochs := f.Next, part.Epochs
	if f.Advance(part); f.Next > before && len(epochs) == 0 {
		epochs = []fetch.WrittenBy{{From: f.Next - 1, Number: -1}} // a gap, and no record before the position
	}
	for _, e := range epochs {
		if n := len(f.epochs); n == 0 || f.epochs[n-1].Number != e.Number {
			f.epochs = append(f.epochs, e)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

// While the lead of a partition moves, a fetch of it may be open at two brokers:
// the new leader is asked as soon as it is known, and the answer of the old one
// may be on its way already. Whichever comes first, each record is handed over
// once and in order: a table that took an older one last would stay wrong.
func TestReaderHandsOverInOrderFromTwoLeaders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var got []int64
		r := NewReader(kafka.Config{Log: zap.NewNop()}, Options{Topic: "t", Handle: func(b Batch) {
			for _, rec := range b.Records {
				got = append(got, rec.Offset)
			}
		}})
		end := rapid.Int64Range(0, 20).Draw(rt, "end")
		l := newReadLoop(
			r, &fetch.Source{Topic: "t", Outage: r.cfg.OutageReporter("read t")}, fetch.Cursors{0: {End: -1}},
		)
		var open []int64 // from where the open fetches were asked
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			if len(open) < 2 && rapid.Bool().Draw(rt, "asks") {
				open = append(open, l.at[0].Next)
				continue
			}
			if len(open) == 0 {
				continue
			}
			n := rapid.IntRange(0, len(open)-1).Draw(rt, "who answers")
			from := open[n]
			open = append(open[:n], open[n+1:]...)
			if err := l.deliver(
				t.Context(), answerOf(from, rapid.Int64Range(from, end).Draw(rt, "up to"), end),
			); err != nil {
				rt.Fatal(err)
			}
		}
		for n, offset := range got {
			if offset != int64(n) {
				rt.Fatalf("handed over in the order %v", got)
			}
		}
	})
}

// answerOf is a fetch of partition 0 that brought these offsets.
func answerOf(from, to, end int64) fetch.Fetched {
	part := fetch.Part{From: from, Next: to, End: end}
	for o := from; o < to; o++ {
		part.Records, part.Bytes = append(part.Records, wire.Record{Offset: o}), part.Bytes+1
	}
	return fetch.Fetched{Fetch: fetch.Request{From: map[int32]int64{0: from}}, Parts: []fetch.Part{part}}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/wire"
)

// reread reads the instances once more at the end, with the consumer of the client library
// and protobuf alone. What the checks know of the log comes through Berth's own reader and
// decoder: what those lose or misread would be hidden from all of them.
func (w *play) reread() {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.World.Seeds()...), kgo.Dialer(w.ours.Dial), kgo.ClientID("observer"),
		kgo.ConsumeTopics(w.kafka().Topics.Instances()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(time.Second))
	w.must(err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(w.ours.Life, judge.ReadTime)
	defer cancel()
	ends := map[int32]bool{}
	for len(ends) < int(w.World.Partitions) && ctx.Err() == nil {
		cl.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
			for _, rec := range p.Records {
				w.rec.AddReread(rec)
				ends[p.Partition] = rec.Offset+1 >= p.HighWatermark
			}
			if p.HighWatermark == 0 && p.Err == nil {
				ends[p.Partition] = true // nothing was ever in it
			}
		})
		maps.DeleteFunc(ends, func(_ int32, read bool) bool { return !read })
	}
	w.rec.RereadAll = len(ends) == int(w.World.Partitions)
}

// isAnother says whether a reader ended since its topic is not the one that it began to read.
func isAnother(err error) bool { return err != nil && compute.KindOf(err) == compute.KindConflict }

// mayBeAnother says whether another topic may ever take the place of one: that of a queue that is made anew.
func mayBeAnother(topics wire.Topics, topic string) bool {
	_, queue := topics.QueueOf(topic)
	return queue
}

// closeRecording records what can be known only now.
func (w *play) closeRecording() {
	r := w.rec
	events, err := w.world.Events()
	w.must(err)
	r.Machines = events
	for _, f := range w.laid.came() {
		r.CountFault(f)
	}
	for id, h := range w.hosts {
		r.Worst[id] = h.Worst()
		r.Left[id] = w.left(w.procs[string(id)])
	}
	slices.SortStableFunc(r.Log, func(a, b judge.Written) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
}

// left is what the last life of an agent still has in its journal.
func (w *play) left(p *process) map[compute.InstanceID]journal.Entry {
	if len(p.lives) == 0 {
		return nil
	}
	j, err := journal.Open(p.journal(p.lives[len(p.lives)-1]), journal.Options{NoSync: true})
	w.must(err)
	defer func() { _ = j.Close() }() // it was only read
	state, err := j.Read()
	w.must(err)
	return state.Entries
}

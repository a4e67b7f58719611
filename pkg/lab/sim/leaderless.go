// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// leaderless has nobody lead a partition, for as long as the fault lasts.
func (w *play) leaderless(f schedule.Fault) {
	b := w.broker.up()
	if b == nil {
		return
	}
	h := b.Fault(kfake.Fault{
		Keys:  []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets},
		Topic: prefix + f.Topic, Partitions: []int32{f.Partition}, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	w.rec.CountFault(f)
	from := time.Now()
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		h.Remove()
		w.rec.AddLeaderless(judge.Leaderless{Topic: f.Topic, Partition: f.Partition, From: from, To: time.Now()})
		w.rec.AddNote("broker", fmt.Sprintf("partition %d of %s has a leader", f.Partition, f.Topic))
	})
}

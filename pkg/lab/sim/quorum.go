// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// tooFew has the third broker refuse what it would have to write down.
func tooFew(third int32) []kfake.Fault {
	refuse := func(err *kerr.Error, top bool, keys ...kmsg.Key) kfake.Fault {
		return kfake.Fault{Keys: keys, Nodes: []int32{third}, Err: err, Count: -1, TopLevel: top}
	}
	return []kfake.Fault{
		refuse(kerr.NotEnoughReplicas, false, kmsg.Produce),
		refuse(kerr.CoordinatorNotAvailable, false, kmsg.OffsetCommit),
		refuse(kerr.CoordinatorNotAvailable, true, kmsg.JoinGroup, kmsg.SyncGroup),
		refuse(kerr.CoordinatorNotAvailable, true, kmsg.InitProducerID),
	}
}

// quorumLost takes two of three brokers away for a while.
func (w *play) quorumLost(f schedule.Fault) {
	b := w.broker.up()
	if b == nil {
		return
	}
	w.rec.CountFault(f)
	w.reach.Leave(0)
	w.reach.Leave(1)
	refused := b.Fault(tooFew(2)...)
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), func() {
		refused.Remove()
		w.reach.Back(0)
		w.reach.Back(1)
		w.rec.SetBack(time.Now())
		w.rec.AddNote("broker", "all are back")
	})
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/share"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// rogue is a consumer that is no host of the cell: each client that may read a queue, as every
// host may, may also acknowledge what is in it. What the rogue gets leaves its queue, and no host
// claims it.
func (w *play) rogue(f schedule.Fault) {
	const wait = time.Second // of a fetch; the last one ends with the fault
	end := time.Now().Add(f.For.Duration())
	w.lasts(f.For, nil)
	cfg := w.kafka()
	cfg.ClientID = "rogue"
	queues := w.readable(cfg, f, end)
	p := share.NewPuller(cfg, share.Options{MaxWait: wait})
	ctx, cancel := context.WithCancel(w.ours.Life)
	var running sync.WaitGroup
	running.Go(func() { w.must(p.Run(ctx)) })
	defer running.Wait()
	defer cancel()
	robbed := false
	for len(queues) > 0 && time.Until(end) > wait {
		sessions, err := p.Place(ctx, queues)
		if err != nil && !w.sleep(100*time.Millisecond) {
			return // the simulation is over
		}
		for l, q := range sessions {
			p.Open(l, q, 0)
		}
		for range sessions {
			if got := <-p.Results(); got.Record != nil {
				if !robbed {
					robbed = true
					w.rec.CountFault(f)
				}
				w.rec.AddRobbed(*got.Record)
				p.Ack(got.Ref, wire.AckAccept)
			}
		}
	}
	w.sleep(time.Until(end)) // the last ack is on its way
}

// readable are the queues that a rogue reads: those of the beginning, which are
// open.
func (w *play) readable(cfg kafka.Config, f schedule.Fault, end time.Time) (list []wire.QueueRef) {
	a, err := admin.New(cfg)
	w.must(err)
	defer a.Close()
	ids, err := a.QueueTopics(w.ours.Life)
	for err != nil && time.Now().Before(end) && w.sleep(time.Second) {
		ids, err = a.QueueTopics(w.ours.Life)
	}
	for _, q := range w.Robbable() {
		if id, ok := ids[q]; ok && (f.Topic == "" || cfg.Topics.Build(q) == prefix+f.Topic) {
			list = append(list, wire.QueueRef{Name: q, Group: cfg.Topics.ShareGroup(0), TopicID: id})
		}
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// A partition that the handler cannot decide about is set aside, with the handler's reason, and no other. Its inputs
// wait for a process that can, or until something is written to its partition of instances.
func TestHandlerThatCannotDecide(t *testing.T) {
	eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
		f := feeding(t, cfg, "k0", "k1")
		asides, old := newAsides(), newLedger(t, "old")
		old.unfit = map[int32]*compute.Error{1: {Message: "it is of a later version", Remedy: "upgrade"}}
		a := loop(t, cfg, setAsideTold(asides), old)
		asides.await(t, 1)
		brokertest.Await(t, a.Ready(), "the loop is ready without it")
		f.more(3, 2)
		a.await(t, "apply 0 k0 3")
		asides.mu.Lock()
		if why := asides.now[0]; why.Why != "it is of a later version" || why.Remedy != "upgrade" {
			t.Errorf("set aside: %+v", why)
		}
		asides.mu.Unlock()
		// The writer of what it cannot read has taken that back.
		old.mu.Lock()
		old.unfit = nil
		old.mu.Unlock()
		brokertest.Put(t, cfg, cfg.Topics.Instances(), 1, "7")
		asides.await(t)
		a.await(t, "apply 1 k1 3")
		a.stop(t)
	})
}

// Partitions that are set aside as the loop begins with them do not keep the others waiting, whichever it begins with.
func TestBeginsWithTheOthersAtOnce(t *testing.T) {
	const partitions, fit = 6, 3
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		for _, topic := range []string{c.Cfg.Topics.Requests(), c.Cfg.Topics.Reports(), c.Cfg.Topics.Instances()} {
			brokertest.MakeTopic(t, c.Cfg, topic, partitions, nil)
		}
		l := newLedger(t, "a")
		l.unfit = map[int32]*compute.Error{}
		for p := range int32(partitions) {
			if p != fit {
				l.unfit[p] = &compute.Error{Message: "it is of a later version", Remedy: "upgrade"}
			}
		}
		began := time.Now()
		defer startLoop(t, c.Cfg, l)()
		l.await(t, fmt.Sprintf("ready %d", fit))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("partition %d waited for %v", fit, took)
		}
	})
}

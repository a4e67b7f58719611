// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Two brokers that do not reach each other, while the third, the controller, reaches both and every process reaches
// all: each lacks a follower of all that it leads. It keeps what it is asked to write until that follower is out of
// sync, and then goes on with the other one. Whatever coordinators among them would write times out until then. What
// the third leads goes on. (A link between brokers that is cut one way has the same effect: replication is requests
// and answers on one connection.)

// outOfSync is after how long a follower that fetches nothing is out of sync (replica.lag.time.max.ms).
const outOfSync = 30 * time.Second

// separations is which brokers lack each other now.
type separations struct {
	mu   sync.Mutex
	now  *separation // nil: none
	life <-chan struct{}
}

// separation is of the first two brokers.
type separation struct {
	over chan struct{}
	held bool // something had to wait
}

func (s *separation) of(node int32) bool { return node < 2 }

// watch has the brokers keep what is to be written for as long as they have to.
func (a *separations) watch(b *embedded.Broker, life <-chan struct{}) {
	a.life = life
	b.Hold(kmsg.Produce, func(node int32, _ kmsg.Request) func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		s := a.now
		if s == nil || !s.of(node) {
			return nil
		}
		s.held = true
		return func() {
			select {
			case <-s.over:
			case <-a.life:
			}
		}
	})
}

// begin answers nil if they are apart already.
func (a *separations) begin() *separation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now != nil {
		return nil
	}
	a.now = &separation{over: make(chan struct{})}
	return a.now
}

func (a *separations) end(s *separation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = nil
	close(s.over)
}

func (a *separations) held(s *separation) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.held
}

// timeOut has coordinators among these brokers fail to write down what they are asked to.
func timeOut(brokers ...int32) []kfake.Fault {
	refuse := func(err *kerr.Error, top bool, key kmsg.Key) kfake.Fault {
		return kfake.Fault{Keys: []kmsg.Key{key}, Nodes: brokers, Err: err, Count: -1, TopLevel: top}
	}
	epoch := refuse(kerr.CoordinatorNotAvailable, true, kmsg.InitProducerID)
	epoch.When = func(r kmsg.Request) bool { return r.(*kmsg.InitProducerIDRequest).TransactionalID != nil }
	return []kfake.Fault{
		epoch,
		refuse(kerr.RequestTimedOut, false, kmsg.OffsetCommit),
		refuse(kerr.CoordinatorNotAvailable, true, kmsg.SyncGroup),
		refuse(kerr.CoordinatorNotAvailable, false, kmsg.ShareAcknowledge),
	}
}

// brokersApart cuts two brokers from each other for a while.
func (w *play) brokersApart(f schedule.Fault) {
	b := w.broker.up()
	if b == nil {
		return
	}
	s := w.separated.begin()
	if s == nil {
		return
	}
	refused := b.Fault(timeOut(0, 1)...)
	w.laid.lay(f, func() bool { return w.separated.held(s) })
	w.lasts(f.For, nil)
	w.after(min(f.For.Duration(), outOfSync), func() {
		refused.Remove()
		w.separated.end(s)
		w.rec.AddNote("broker", "1 and 2 wait for each other no longer")
	})
}

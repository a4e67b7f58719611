// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// Manager is the queue manager of one process. It is a service.Part: ready once
// it has read all there is, active or standing by.
type Manager struct {
	opts  Options
	view  *view
	ready chan struct{}
	left  [4]bool // which streams have been read to their end; guarded by view.mu

	reconcile, hosts, advice, rejects, rings, twins chan struct{} // hold one token: there is news
}

// New is a manager that has read nothing yet.
func New(o Options) *Manager {
	o = o.withDefaults()
	m := &Manager{
		opts: o, view: newView(o), ready: make(chan struct{}), rejects: make(chan struct{}, 1),
		reconcile: make(chan struct{}, 1), hosts: make(chan struct{}, 1), advice: make(chan struct{}, 1),
		rings: make(chan struct{}, 1),
		twins: make(chan struct{}, 1),
	}
	m.view.unreadable = m.unreadable
	m.view.believe = m.believe
	return m
}

// Ready is closed once all four streams were read to their end.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// The streams.
const (
	catalogStream = iota
	queuesStream
	hostsStream
	instancesStream
)

// Catalog takes records of the catalog topic, in order; end says that there
// are no more for now.
func (m *Manager) Catalog(recs []wire.Record, end bool) {
	m.apply(catalogStream, recs, end, func(rec wire.Record, now time.Time) {
		m.view.catalog(rec, now)
		wake(m.reconcile)
		wake(m.rings)
	})
}

// Queues takes records of the queues topic, the manager's own among them.
func (m *Manager) Queues(recs []wire.Record, end bool) {
	m.apply(queuesStream, recs, end, func(rec wire.Record, now time.Time) {
		m.view.queue(rec, now)
		wake(m.reconcile)
		wake(m.advice)
	})
}

// Hosts takes records of the hosts topic.
func (m *Manager) Hosts(recs []wire.Record, end bool) {
	m.apply(hostsStream, recs, end, func(rec wire.Record, now time.Time) {
		first, tell := m.view.host(rec, !m.left[hostsStream], now)
		if first {
			wake(m.hosts)
		}
		if tell {
			wake(m.twins)
		}
		wake(m.rings)
	})
}

// Instances takes committed records of the instances topic, in order within
// each partition.
func (m *Manager) Instances(recs []wire.Record, end bool) {
	m.apply(instancesStream, recs, end, func(rec wire.Record, now time.Time) {
		turn := m.view.instance(rec, now)
		if turn.freed || turn.lacks {
			wake(m.reconcile)
		}
		if turn.told {
			wake(m.advice)
		}
		if turn.came {
			wake(m.rings)
		}
	})
}

// Advice takes records of the advice topic: they are all a manager's own, and
// what is not is written down. Nobody waits for it.
func (m *Manager) Advice(recs []wire.Record, _ bool) {
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	for _, rec := range recs {
		if _, err := wire.DecodeAdvice(rec); err != nil {
			m.unreadable(rec, err)
		}
	}
}

func (m *Manager) apply(stream int, recs []wire.Record, end bool, each func(wire.Record, time.Time)) {
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	now := m.now()
	m.view.clock.Observe(recs, now)
	m.view.ringer.Ahead(m.view.ahead(now))
	for _, rec := range recs {
		each(rec, now)
	}
	if !end || m.left[stream] {
		return
	}
	m.left[stream] = true
	if m.left == [4]bool{true, true, true, true} {
		close(m.ready)
	}
}

// now is what this process's clock shows.
func (m *Manager) now() time.Time { return m.view.now() }

// wake says that there is news. Much news is one token.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works while this manager is elected and stands by while it is not.
func (m *Manager) Run(ctx context.Context) error {
	defer m.opts.Metrics.standBy()()
	elected := m.opts.Leader.Elected()
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case yes, open := <-elected:
			stop()
			stop = func() {}
			if yes {
				stop = m.begin(ctx)
			}
			if !open {
				elected = nil // nobody will elect us any more
			}
		}
	}
}

// begin works until stop is called; stop returns when all work has ended.
func (m *Manager) begin(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	t := newTerm(m)
	var all sync.WaitGroup
	run := func(may func(context.Context) bool, loops ...func(context.Context)) {
		for _, loop := range loops {
			all.Go(func() {
				if may(ctx) {
					loop(ctx)
				}
			})
		}
	}
	run(t.caughtUpOnLists, t.reconcileLoop, t.hostLoop, t.twinsLoop)
	run(t.caughtUp, t.adviceLoop, t.truncateLoop)
	run(t.triedToCatchUp, t.rejectLoop, t.ringLoop)
	m.opts.Logger.Info("elected: active from now on")
	hide := m.opts.Metrics.show(m.view)
	return func() {
		hide()
		cancel()
		all.Wait()
		m.opts.Logger.Info("not active any more")
	}
}

// SPDX-License-Identifier: Apache-2.0

package agent

import "sync"

// message is something that came from outside the loop's goroutine; it is
// called in it.
type message func(*loop)

// inbox brings messages to the loop, in order. Putting never blocks: what feeds
// it (one host's stream, the queue list, results of its own calls) is bounded
// by what the host does.
type inbox struct {
	mu     sync.Mutex
	queued []message
	news   chan struct{} // holds one token while something is queued
}

func newInbox() *inbox { return &inbox{news: make(chan struct{}, 1)} }

func (b *inbox) put(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queued = append(b.queued, m)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *inbox) all() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.queued
	b.queued = nil
	return out
}

func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queued) == 0
}

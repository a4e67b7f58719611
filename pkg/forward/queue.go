// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// mostWaiting is how many events are read ahead of the receiver. The present is read to its end, however much that is:
// a node would cut off a listener that takes long, and the present would begin anew. What waits of one that was broken
// off is dropped then.
const mostWaiting = 1000

// queue is what was read and not posted yet.
type queue struct {
	mu    sync.Mutex
	all   []Event
	ended bool
	news  chan struct{} // there is something, or it has ended
	room  chan struct{} // something was taken
}

func newQueue() *queue { return &queue{news: make(chan struct{}, 1), room: make(chan struct{}, 1)} }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds one, and waits for room if it is bounded; false: ctx has ended.
func (q *queue) put(ctx context.Context, e Event, bounded bool) bool {
	for {
		q.mu.Lock()
		if !bounded || len(q.all) < mostWaiting {
			q.all = append(q.all, e)
			q.mu.Unlock()
			signal(q.news)
			return true
		}
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-ctx.Done():
			return false
		}
	}
}

// drop lets go of what is of a present that will be told anew, and was not taken yet.
func (q *queue) drop(run string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = slices.DeleteFunc(q.all, func(e Event) bool { return strings.HasPrefix(e.ID, run+"/") })
	signal(q.room)
}

// end says that no more comes.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	signal(q.news)
}

// take takes the next, up to so many for a receiver, and the position behind them; false: there are no more, or ctx has
// ended.
func (q *queue) take(ctx context.Context, most int) (batch []Event, behind string, more bool) {
	for ctx.Err() == nil {
		q.mu.Lock()
		n := 0
		for n < len(q.all) && len(batch) < most {
			if e := q.all[n]; e.Type != "" {
				batch = append(batch, e)
			}
			if q.all[n].behind != "" {
				behind = q.all[n].behind
			}
			n++
		}
		clear(q.all[:n]) // its data is let go
		q.all = q.all[n:]
		ended := q.ended
		q.mu.Unlock()
		if n > 0 {
			signal(q.room)
			return batch, behind, true
		}
		if ended {
			return nil, "", false
		}
		select {
		case <-q.news:
		case <-ctx.Done():
		}
	}
	return nil, "", false
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"sync"

	"github.com/berth-project/berth/pkg/compute"
)

// locks let one call at a time change an instance.
type locks struct {
	mu   sync.Mutex
	held map[compute.InstanceID]chan struct{} // closed when it is unlocked
}

// lock waits until nobody else has the instance; over unlocks it.
func (l *locks) lock(ctx context.Context, id compute.InstanceID) (over func(), err error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.mu.Lock()
		before, busy := l.held[id]
		if !busy {
			if l.held == nil {
				l.held = map[compute.InstanceID]chan struct{}{}
			}
			mine := make(chan struct{})
			l.held[id] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, id)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
		}
	}
}

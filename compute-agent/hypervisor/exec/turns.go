package exec

import (
	"context"
	"sync"

	"github.com/berth-project/berth/pkg/compute"
)

// turns lets one call at a time change an instance.
type turns struct {
	mu   sync.Mutex
	held map[compute.InstanceID]chan struct{} // closed when the turn is over
}

// take waits for the instance's turn; over ends it.
func (t *turns) take(ctx context.Context, id compute.InstanceID) (over func(), err error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.mu.Lock()
		before, busy := t.held[id]
		if !busy {
			if t.held == nil {
				t.held = map[compute.InstanceID]chan struct{}{}
			}
			mine := make(chan struct{})
			t.held[id] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.held, id)
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
		}
	}
}

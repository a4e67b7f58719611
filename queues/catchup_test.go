// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// behind is a member whose readers are late: only when it asks them to read up to
// the end do they hand over what has been written since they last did, and they
// cannot before reach is set.
type behind struct {
	*member
	reach *atomic.Bool
}

func (b behind) Sync(ctx context.Context) error {
	if !b.reach.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	b.deliver()
	return b.member.Sync(ctx)
}

func (b behind) SyncLists(ctx context.Context) error { return b.Sync(ctx) }

// A manager that is elected reads what the one before has written, and what others
// have, before it does anything: it has read everything once, and that was long ago.
// Until it has it makes, deletes, advises and rings nothing.
func TestAnElectedManagerCatchesUpBeforeItActs(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		var reach atomic.Bool
		late := &member{
			far: f, name: "late", elected: make(chan bool, 1), ended: make(chan error, 1),
			read: map[string]int{},
		}
		view := behind{late, &reach}
		late.Manager = New(Options{
			Topics: names, Leader: late, View: view, Log: late,
			Far: Far{Topics: late, Hosts: late, Shares: late},
		})
		ctx, cancel := context.WithCancel(t.Context())
		late.cancel = cancel
		go func() { late.ended <- late.Run(ctx) }()
		f.publish(names.Hosts(), beacon("h0", 4))
		late.deliver() // that is all there is, and so it is ready

		first := f.join(t, "first")
		first.elected <- true
		f.publish(names.Catalog(), flavor("wanted"), flavor("closing"))
		f.publish(names.Hosts(), beacon("h1", 4))
		settle(20 * time.Second)
		f.publish(names.Instances(), instance(1, "closing", compute.StateQueued))
		f.publish(names.Catalog(), noFlavor("closing"))
		settle(20 * time.Second)
		first.elected <- false
		settle(time.Second)
		f.changes()

		var did []string
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.who == "late" && !reach.Load() {
				did = append(did, c.op+" "+c.name)
			}
			return fault{}
		}
		f.mu.Unlock()
		late.elected <- true
		settle(2 * time.Minute)
		if len(did) > 0 {
			t.Errorf("before it had caught up it did %q", did)
		}
		reach.Store(true)
		settle(5 * time.Minute)
		for _, done := range f.changes() {
			if done != "host h0" && done != "host h1" { // making them again does no harm
				t.Errorf("it did: %s", done)
			}
		}
		late.stop(t)
		if f.topic("wanted") == nil || f.topic("closing") == nil {
			t.Error("a topic is gone that was in use")
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"time"
)

// Delayed is a part that works on for some time after it is told to stop, for those that still send it work until they
// have seen that it stops. stopping is called when that time begins. A part that is not ready yet stops at once, and so
// does one that ends by itself.
func Delayed(p Part, by time.Duration, stopping func()) Part {
	return delayed{Part: p, by: by, stopping: stopping}
}

type delayed struct {
	Part
	by       time.Duration
	stopping func()
}

func (d delayed) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Part.Run(inner) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-d.Ready():
		d.stopping()
		wait := time.NewTimer(d.by)
		defer wait.Stop()
		select {
		case err := <-ended:
			return err
		case <-wait.C:
		}
	default:
	}
	cancel()
	return <-ended
}

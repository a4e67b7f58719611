// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// ErrEndedEarly is what a part did of which During needed more.
var ErrEndedEarly = errors.New("a part ended before it was ready")

// During runs a part while use does. The part is ready before use begins and
// stopped after it ends; if the part ends first, use is called off. The part's
// error counts for more than that of use. Called off before the part is ready,
// it answers nil, as a part does that was told to stop: use was not run then.
func During(caller context.Context, p Part, use func(context.Context) error) error {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := p.Run(ctx)
		cancel()
		ended <- err
	}()
	var err error
	select {
	case <-p.Ready():
		err = use(ctx)
	case <-ctx.Done():
		if caller.Err() == nil {
			err = ErrEndedEarly
		}
	}
	cancel()
	if partErr := <-ended; partErr != nil {
		return partErr
	}
	return err
}

// Jitter is between half of d and d, so that those that wait for the same do not
// all come at once.
func Jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) } // #nosec G404 -- jitter

// Sleep waits unless ctx ends before; it says whether the time has passed.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

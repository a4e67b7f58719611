// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"sync/atomic"
)

// sharedSync lets many readers share few Syncs. A reader needs a Sync that began
// after the reader came: one that was already under way may have asked for the
// ends before the record the reader looks for was written.
type sharedSync struct {
	syncer Syncer
	token  chan struct{} // holds one token: its holder runs a Sync
	begun  *atomic.Uint64
	done   *uint64 // the newest Sync that succeeded; owned by the token's holder
}

func newSharedSync(s Syncer) sharedSync {
	r := sharedSync{syncer: s, token: make(chan struct{}, 1), begun: new(atomic.Uint64), done: new(uint64)}
	r.token <- struct{}{}
	return r
}

// sync returns nil once a Sync that began after the call has succeeded.
func (r sharedSync) sync(ctx context.Context) error {
	arrived := r.begun.Load()
	select {
	case <-r.token:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.token <- struct{}{} }()
	if *r.done > arrived {
		return nil
	}
	round := r.begun.Add(1)
	if err := r.syncer.Sync(ctx); err != nil {
		return err
	}
	*r.done = round
	return nil
}

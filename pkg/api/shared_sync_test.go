// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestRounds: a reader's Sync began after the reader came; any number of readers
// cost two at most.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSync{next: make(chan error)}
		r := newSharedSync(s.Sync)
		results := make(chan error, 10)
		read := func() { results <- r.sync(t.Context()) }
		go read()
		synctest.Wait()
		for range 5 {
			go read() // these come while the first Sync is under way: it is too old for them
		}
		synctest.Wait()
		s.next <- nil
		synctest.Wait()
		if len(results) != 1 || s.begun != 2 {
			t.Errorf("after the first round %d are done, %d rounds have begun", len(results), s.begun)
		}
		s.next <- nil
		synctest.Wait()
		if len(results) != 6 || s.begun != 2 {
			t.Errorf("after the second round %d are done, %d rounds have begun", len(results), s.begun)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go read()
		synctest.Wait()
		go func() { results <- r.sync(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(results) != 7 {
			t.Error("who gives up does not wait for the round of another")
		}
		s.next <- errors.New("broker away")
		synctest.Wait()
		var failed int
		for range len(results) {
			if <-results != nil {
				failed++
			}
		}
		if failed != 2 {
			t.Errorf("%d failed, want the one that gave up and the one whose round did", failed)
		}
	})
}

// slowSync ends a Sync when told how.
type slowSync struct {
	begun int
	next  chan error
}

func (s *slowSync) Sync(context.Context) error {
	s.begun++
	return <-s.next
}

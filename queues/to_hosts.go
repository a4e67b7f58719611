// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// toHosts sends commands to hosts, each host's by itself: a stream without a leader, which takes nothing until the time
// is up, holds up no other host.
type toHosts struct {
	log   Log
	mu    sync.Mutex
	under map[compute.HostID]int // sends under way
	total int
	all   sync.WaitGroup
}

const (
	// mostToHost bounds the sends to one host that are under way. When its brokers answer no more, rings are dropped:
	// late ones say nothing any more.
	mostToHost = 4
	// mostToHosts bounds them all: a thousand hosts without a leader leave some to others.
	mostToHosts = 4096
	// sendTimeout is how long a send may be on its way.
	sendTimeout = 5 * time.Second
)

// errBehind is why commands are dropped.
var errBehind = errors.New("too many sends to hosts are under way")

func newToHosts(log Log) *toHosts { return &toHosts{log: log, under: map[compute.HostID]int{}} }

// send does not wait. It calls then once with what became of the records, which may be before it returns.
func (s *toHosts) send(ctx context.Context, h compute.HostID, recs []wire.Record, then func(error)) {
	if !s.begin(h) {
		then(errBehind)
		return
	}
	s.all.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		err := s.log.Send(ctx, recs...)
		s.end(h)
		then(err)
	})
}

func (s *toHosts) begin(h compute.HostID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under[h] == mostToHost || s.total == mostToHosts {
		return false
	}
	s.under[h]++
	s.total++
	return true
}

func (s *toHosts) end(h compute.HostID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.under[h]--; s.under[h] == 0 {
		delete(s.under, h)
	}
}

// wait returns once nothing is under way.
func (s *toHosts) wait() { s.all.Wait() }

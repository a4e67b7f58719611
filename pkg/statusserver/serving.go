// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Serving is a service.Part: while it runs, the server serves a handler. When it
// is stopped no new request reaches the handler, and those under way are
// answered before Run returns, so that what the handler stands on can be closed.
type Serving struct {
	server  *Server
	handler http.Handler
	ready   chan struct{}
}

// Serving makes such a part. The server must run longer than the part, or to the
// part's end; how the two end does not matter.
func (f *Server) Serving(h http.Handler) *Serving {
	return &Serving{server: f, handler: h, ready: make(chan struct{})}
}

// Ready is closed once the handler answers.
func (s *Serving) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, and then waits for what is under way, for at most
// the server's StopTimeout.
func (s *Serving) Run(ctx context.Context) error {
	s.server.Serve(s.handler)
	close(s.ready)
	<-ctx.Done()
	last := s.server.swap(mode{awaited: stopping})
	idle := make(chan struct{})
	go func() { last.busy.Wait(); close(idle) }()
	patience := time.NewTimer(s.server.options.StopTimeout)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		s.server.options.Log.Warn("requests are still under way", zap.Duration("after", s.server.options.StopTimeout))
	}
	return nil
}

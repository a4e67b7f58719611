// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"

	"go.uber.org/zap"
)

// Server is one API node. Records may be fed to it before and while it serves.
type Server struct {
	config  Config
	log     *zap.Logger
	views   views
	syncs   sharedSync
	locks   *instanceLocks
	writes  *breaker // before publications
	reads   *breaker // before catching up
	asks    *consoleAsks
	metrics *Metrics
	unshown func() // ends what the metrics ask
	http    http.Handler
}

// New makes a node; what it serves is its Handler.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Server{
		config: c, log: c.Log, views: newViews(c.Partitions, c.Log), syncs: newSharedSync(c.Syncer),
		locks: newInstanceLocks(c.Publishing), asks: newConsoleAsks(c.OpenAsks),
		writes: newBreaker("publishing", c.Publishing), reads: newBreaker("catching_up", c.CatchingUp),
		metrics: NewMetrics(c.Metrics),
	}
	s.http = s.routes()
	s.unshown = s.metrics.show(s)
	return s, nil
}

// Handler answers HTTP requests.
func (s *Server) Handler() http.Handler { return s.http }

// Close takes the node out of the metrics. A second call does nothing.
func (s *Server) Close() { s.unshown() }

package api

import (
	"net/http"

	"go.uber.org/zap"
)

// Server is one API node. Records may be fed to it before and while it runs.
type Server struct {
	config Config
	log    *zap.Logger
	views  views
	rounds rounds
	http   http.Handler
}

// New makes a node; what it serves is its Handler.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Server{config: c, log: c.Log, views: newViews(c.Log)}
	s.rounds = newRounds(c.Syncer)
	handler, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.http = handler
	return s, nil
}

// Handler answers HTTP requests.
func (s *Server) Handler() http.Handler { return s.http }

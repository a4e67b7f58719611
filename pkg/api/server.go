package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// Server is one API node. Records may be fed to it before and while it runs.
type Server struct {
	config Config
	log    *zap.Logger
	views  views
	rounds rounds
	http   http.Handler

	ready chan struct{}
	mu    sync.Mutex
	addr  net.Addr
}

// New makes a node that serves nothing until Run, unless through Handler.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Server{config: c, log: c.Log, views: newViews(c.Log), ready: make(chan struct{})}
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

// Ready is closed once the node listens. Whether its views have caught up is
// what /readyz says.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is where it listens; nil before Ready.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Limits of the HTTP server. A body is bounded for each operation.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Run listens and answers until ctx ends. Requests then under way are finished,
// within StopTimeout.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.config.Listen(ctx, "tcp", s.config.Address)
	if err != nil {
		return &compute.Error{Op: "api listen", Kind: compute.KindUnavailable, Message: "cannot listen on " + s.config.Address, Cause: err}
	}
	errorLog, _ := zap.NewStdLogAt(s.log, zap.WarnLevel) // only an unknown level fails
	server := &http.Server{
		Handler:           onlyOurNames(s.http, s.config.Address),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errorLog,
	}
	s.mu.Lock()
	s.addr = listener.Addr()
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	s.log.Info("listening", zap.Stringer("address", listener.Addr()))
	close(s.ready)
	select {
	case err := <-ended:
		return &compute.Error{Op: "api serve", Kind: compute.KindInternal, Cause: err}
	case <-ctx.Done():
	}
	return s.stop(ctx, server, ended)
}

// onlyOurNames refuses requests for another host's name. A page in a browser on
// this machine can make its own name lead to a loopback address; what it then
// asks looks like the node's own pages, but for the name.
func onlyOurNames(next http.Handler, address string) http.Handler {
	ours, _, _ := net.SplitHostPort(address) // was checked
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = strings.Trim(r.Host, "[]")
		}
		if name != ours && name != "localhost" && net.ParseIP(name) == nil {
			refuseForeign(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) stop(ctx context.Context, server *http.Server, ended <-chan error) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		s.log.Warn("requests were cut off", zap.Error(err))
		_ = server.Close() // what Close reports is what Shutdown has left over
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return &compute.Error{Op: "api serve", Kind: compute.KindInternal, Cause: err}
	}
	return nil
}

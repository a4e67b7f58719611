// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/ratelimit"
	"github.com/berth-project/berth/pkg/tlsfiles"
)

// Options say where a server listens and what it shows.
type Options struct {
	Address     string // host:port; port 0 picks one
	Listen      func(ctx context.Context, network, address string) (net.Listener, error)
	TLS         *tlsfiles.Files // nil: HTTP without TLS
	Bounds      Bounds
	Metrics     http.Handler          // answers GET /metrics; nil: 404
	Guarded     bool                  // nobody sees the metrics before GuardMetrics says which callers do
	Registerer  prometheus.Registerer // of the server's own metrics; nil: none
	Log         *zap.Logger           // nil: none
	Waiting     string                // what /readyz says until told otherwise; empty: "starting"
	StopTimeout time.Duration         // how long requests under way may take when stopping; 0: 5 s

	now func() time.Time // of the bounds; nil: time.Now
}

// Limits of the HTTP server. The handler of a request bounds its body, and the
// time until it answers: the write time-out is only the last resort. The header
// time-out begins with the connection: clients open some ahead, or get no CPU.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 5 * time.Second
	maxHeader     = 64 << 10
)

// Server answers on one address for as long as it runs:
//
//	              /healthz   /readyz                 /metrics   the rest
//	waiting       200        503, what is awaited    Metrics    503, what is awaited
//	up            200        200                     Metrics    404
//	serving h     h          h                       Metrics    h
//	stopping, h   h          503                     Metrics    h
//
// GuardMetrics may refuse the metrics to some callers; where it is to come (Guarded), all are refused before.
//
// It may be told to wait, to be up or to serve in any order, before it runs,
// while it does and afterwards, by any goroutine.
type Server struct {
	options Options
	metrics *httpMetrics
	rates   *ratelimit.Limiter // of addresses
	ready   chan struct{}

	mu      sync.Mutex
	addr    net.Addr
	mode    mode
	trouble []string
	stops   bool                            // it is about to stop, and serves still
	guard   func(http.Handler) http.Handler // before the metrics; nil: nothing
}

// mode is what is shown at some time. Of a mode that has passed, requests may
// still be under way.
type mode struct {
	awaited string       // not ready: what is waited for
	handler http.Handler // answers everything but /metrics; nil: our own answers
	trouble []string     // what is wrong though it is ready
	stops   bool         // /readyz says that it is about to stop
	busy    *sync.WaitGroup
}

// New makes a server that listens when it runs.
func New(o Options) *Server {
	if o.Listen == nil {
		o.Listen = (&net.ListenConfig{}).Listen
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Waiting == "" {
		o.Waiting = "starting"
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = stopTimeout
	}
	f := &Server{
		options: o, metrics: newMetrics(o.Registerer), ready: make(chan struct{}),
		rates: ratelimit.New(ratelimit.Options{PerSecond: o.Bounds.AddressRate, Now: o.now}),
	}
	if o.Guarded {
		f.GuardMetrics(noneYet)
	}
	f.Waiting(o.Waiting)
	return f
}

// Ready is closed once it listens.
func (f *Server) Ready() <-chan struct{} { return f.ready }

// Addr is where it listens; nil before Ready.
func (f *Server) Addr() net.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addr
}

// Waiting says that the daemon is not ready, or not any more, and why:
// "waiting for Kafka at k1:9092".
func (f *Server) Waiting(why string) { f.swap(mode{awaited: why}) }

// Up says that a daemon without a handler of its own is ready.
func (f *Server) Up() { f.swap(mode{}) }

// Serve lets h answer everything but /metrics from now on.
func (f *Server) Serve(h http.Handler) { f.swap(mode{handler: h}) }

// Trouble says what is wrong and keeps the daemon from only a part of its work, a
// sentence for each; /readyz shows it, with 200. nil: nothing any more.
func (f *Server) Trouble(what []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = what
}

// Stopping has /readyz say from now on that the daemon is about to stop, whatever else it does, so that load balancers
// send requests elsewhere before it ends.
func (f *Server) Stopping() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stops = true
}

// GuardMetrics lets guard decide from now on which callers see the metrics.
func (f *Server) GuardMetrics(guard func(http.Handler) http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.guard = guard
}

// guarded is a handler behind the guard, if there is one.
func (f *Server) guarded(h http.Handler) http.Handler {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil {
		return h
	}
	return f.guard(h)
}

// noneYet is the guard before the one that knows callers.
func noneYet(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		notYet(w, "it is not known yet which callers may see the metrics")
	})
}

func (f *Server) swap(to mode) (from mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from = f.mode
	to.busy = new(sync.WaitGroup)
	f.mode = to
	return from
}

// now is the current mode, with one more request under way.
func (f *Server) now() mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode.busy.Add(1)
	now := f.mode
	now.trouble, now.stops = f.trouble, f.stops
	return now
}

// Run listens and answers until ctx ends. Requests then under way are finished,
// within StopTimeout.
func (f *Server) Run(ctx context.Context) error {
	listener, err := f.options.Listen(ctx, "tcp", f.options.Address)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return &compute.Error{
			Kind: compute.KindUnavailable, Field: "listen", Value: f.options.Address, Message: "cannot be listened on",
			Remedy: "give an address of this machine with a port that nothing else uses", Cause: err,
		}
	}
	bound := &bounded{
		Listener: listener, bounds: f.options.Bounds, rates: f.rates, metrics: f.metrics, byAddress: map[string]int{},
	}
	defer f.metrics.show(bound, f.options)()
	server := f.httpServer()
	f.mu.Lock()
	f.addr = listener.Addr()
	f.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- serve(server, bound) }()
	f.options.Log.Info("listening", zap.Stringer("address", listener.Addr()), zap.Bool("tls", f.options.TLS != nil))
	close(f.ready)
	select {
	case err := <-ended:
		return &compute.Error{Op: "listen", Kind: compute.KindInternal, Cause: err}
	case <-ctx.Done():
	}
	return f.stop(ctx, server, ended)
}

func (f *Server) httpServer() *http.Server {
	errors, _ := zap.NewStdLogAt(f.options.Log, zap.WarnLevel) // only an unknown level fails
	errors.SetOutput(newFewLines(errors.Writer()))
	server := &http.Server{
		Handler:           f.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errors,
	}
	if files := f.options.TLS; files != nil {
		server.TLSConfig = files.Config()
		server.ConnContext = files.Mark
		server.Handler = endOld(server.Handler)
	}
	return server
}

func serve(server *http.Server, l net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "") // the files are those of the configuration
	}
	return server.Serve(l)
}

// endOld ends a connection with its next answer once the files are others than when it began. An answer that goes on for
// long has to look for itself (tlsfiles.Changed).
func endOld(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tlsfiles.Changed(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (f *Server) stop(ctx context.Context, server *http.Server, ended <-chan error) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.options.StopTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		f.options.Log.Warn("requests were cut off", zap.Error(err))
		_ = server.Close() // what Close reports is what Shutdown has left over
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return &compute.Error{Op: "listen", Kind: compute.KindInternal, Cause: err}
	}
	return nil
}

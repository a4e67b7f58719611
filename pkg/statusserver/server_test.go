// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

// running starts a server, or anything else that runs, and ends it with the test.
func running(t *testing.T, p interface {
	Run(context.Context) error
	Ready() <-chan struct{}
}) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	<-p.Ready()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// got is what a path answers.
type got struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, f *Server, method, path string) got {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got{resp.StatusCode, resp.Header, string(body)}
}

// problem reads a refusal and checks that it explains itself.
func (g got) problem(t *testing.T, status int) rest.Problem {
	t.Helper()
	var p rest.Problem
	if err := json.Unmarshal([]byte(g.body), &p); err != nil || g.status != status || p.Status != status ||
		g.header.Get("Content-Type") != "application/problem+json" || p.Kind == "" || p.Detail == "" || p.Remedy == "" {
		t.Errorf("%d %v %s, want a problem with status %d: %v", g.status, g.header, g.body, status, err)
	}
	return p
}

const alive = "{\"status\":\"ok\"}\n"

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
}

func TestFaces(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0", Metrics: text("numbers"), Waiting: "reading the configuration"})
	running(t, f)
	waits := func(why string) {
		t.Helper()
		if g := ask(t, f, "GET", "/healthz"); g.status != 200 || g.body != alive {
			t.Errorf("healthz: %d %s", g.status, g.body)
		}
		for _, path := range []string{"/readyz", "/v1/instances", "/"} {
			g := ask(t, f, "GET", path)
			if p := g.problem(t, 503); p.Kind != "unavailable" || p.Message != "not ready: "+why ||
				g.header.Get("Retry-After") != "1" {
				t.Errorf("%s: %+v, Retry-After %q", path, p, g.header.Get("Retry-After"))
			}
		}
		ask(t, f, "POST", "/v1/instances").problem(t, 503)
		ask(t, f, "POST", "/healthz").problem(t, 405)
	}
	waits("reading the configuration")
	f.Waiting("waiting for Kafka at k1:9092")
	waits("waiting for Kafka at k1:9092")
	f.Up()
	for _, path := range []string{"/healthz", "/readyz"} {
		if g := ask(t, f, "GET", path); g.status != 200 || g.body != alive ||
			g.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
	ask(t, f, "GET", "/v1/instances").problem(t, 404)
	f.Waiting("lost the conductor's group")
	waits("lost the conductor's group")
	f.Serve(text("served"))
	for _, path := range []string{"/healthz", "/readyz", "/", "/v1/instances"} {
		if g := ask(t, f, "GET", path); g.status != 200 || g.body != "served" {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
	if g := ask(t, f, "GET", "/metrics"); g.status != 200 || g.body != "numbers" {
		t.Errorf("metrics: %d %s", g.status, g.body)
	}
	ask(t, f, "POST", "/metrics").problem(t, 405)
}

func TestDefaults(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	running(t, f)
	if p := ask(t, f, "GET", "/readyz").problem(t, 503); p.Message != "not ready: starting" {
		t.Error(p.Message)
	}
	ask(t, f, "GET", "/metrics").problem(t, 404)
}

func TestMetricsWaitForTheirGuard(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0", Metrics: text("numbers"), Guarded: true})
	running(t, f)
	for _, become := range []func(){func() {}, f.Up, func() { f.Serve(text("served")) }} {
		become()
		if g := ask(t, f, "GET", "/metrics"); g.status != 503 || strings.Contains(g.body, "numbers") {
			t.Errorf("before the guard is known: %d %s", g.status, g.body)
		}
	}
	f.GuardMetrics(func(next http.Handler) http.Handler { return next })
	if g := ask(t, f, "GET", "/metrics"); g.status != 200 || g.body != "numbers" {
		t.Errorf("behind a guard that lets everybody through: %d %s", g.status, g.body)
	}
}

func TestStopsListening(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	running(t, f)()
	if c, err := net.Dial("tcp", f.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening")
	}
}

// slow is a handler whose request is under way until the test lets it go.
type slow struct{ arrived, goOn chan struct{} }

func newSlow() slow { return slow{make(chan struct{}), make(chan struct{})} }

func (s slow) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	close(s.arrived)
	<-s.goOn
	_, _ = io.WriteString(w, "in the end")
}

// asked begins a request; what it answers comes over the channel.
func asked(t *testing.T, f *Server, path string) <-chan got {
	out := make(chan got, 1)
	go func() { out <- ask(t, f, "GET", path) }()
	return out
}

func TestFinishesWhatIsUnderWay(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	h := newSlow()
	f.Serve(h)
	stop := running(t, f)
	answer := asked(t, f, "/")
	<-h.arrived
	done := make(chan struct{})
	go func() { stop(); close(done) }()
	close(h.goOn)
	if g := <-answer; g.body != "in the end" {
		t.Errorf("answered %d %s", g.status, g.body)
	}
	<-done
}

func serves(f *Server) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode.handler != nil
}

// TestServingEndsBeforeWhatItStandsOn: when Run returns, no request is in the
// handler, and new ones are told to come again; the server goes on.
func TestServingEndsBeforeWhatItStandsOn(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0", StopTimeout: time.Hour})
	running(t, f)
	h := newSlow()
	s := f.Serving(h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	answer := asked(t, f, "/")
	<-h.arrived
	cancel()
	for serves(f) { // the handler is given back before Run ends
		runtime.Gosched()
	}
	if p := ask(t, f, "GET", "/readyz").problem(t, 503); p.Message != "not ready: stopping" {
		t.Error(p.Message)
	}
	select {
	case err := <-done:
		t.Fatalf("ended before what was under way: %v", err)
	default:
	}
	close(h.goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if g := <-answer; g.body != "in the end" {
		t.Errorf("answered %d %s", g.status, g.body)
	}
}

// TestStoppingStillServes: a server that is about to stop is not ready, and answers all else as before.
func TestStoppingStillServes(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	running(t, f)
	f.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	f.Stopping()
	if p := ask(t, f, "GET", "/readyz").problem(t, 503); p.Message != "not ready: stopping" {
		t.Error(p.Message)
	}
	for _, path := range []string{"/", "/healthz", "/v1/instances"} {
		if g := ask(t, f, "GET", path); g.status != 200 || g.body != "served" {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
}

func TestServingDoesNotWaitForEver(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0", StopTimeout: time.Millisecond})
	running(t, f)
	h := newSlow()
	stop := running(t, f.Serving(h))
	answer := asked(t, f, "/")
	<-h.arrived
	stop()
	close(h.goOn)
	<-answer
}

func TestCannotListen(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:1", Listen: func(context.Context, string, string) (net.Listener, error) {
		return nil, errors.New("in use")
	}})
	err := f.Run(t.Context())
	if compute.KindOf(err) != compute.KindUnavailable || err.Error() !=
		`listen "127.0.0.1:1": cannot be listened on; give an address of this machine with a port that nothing `+
			`else uses: in use` {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx); err != nil {
		t.Errorf("stopped while starting: %v", err)
	}
}

func TestOnlyOurNames(t *testing.T) {
	for address, names := range map[string]map[string]int{
		"127.0.0.1:7070": {
			"127.0.0.1:7070": 200, "localhost:7070": 200, "localhost": 200, "[::1]:7070": 200, "[::1]": 200,
			"evil.example:7070": 403, "127.0.0.1.evil.example": 403, "": 403,
		},
		"localhost:7070":  {"localhost:7070": 200, "evil.example": 403},
		"0.0.0.0:7070":    {"host-1.example:7070": 200},
		":7070":           {"host-1.example:7070": 200},
		"192.0.2.1:7070":  {"host-1.example:7070": 200},
		"host-1.example:": {"host-1.example": 200},
	} {
		handler := onlyOurNames(address, text(""))
		for name, want := range names {
			req := httptest.NewRequest("GET", "/healthz", nil)
			req.Host = name
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, req)
			if w.Code != want {
				t.Errorf("%s, asked as %q: %d, want %d", address, name, w.Code, want)
			}
			if g := (got{w.Code, w.Header(), w.Body.String()}); want == 403 &&
				!strings.Contains(g.problem(t, 403).Detail, "localhost") {
				t.Errorf("%s", g.body)
			}
		}
	}
}

// TestHugeHeadersAreRefused: they are not read to the end.
func TestHugeHeadersAreRefused(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	running(t, f)
	c, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(append([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "),
		bytes.Repeat([]byte("a"), 4*maxHeader)...)) // may be refused before its end
	answer := make([]byte, 64)
	if n, err := c.Read(answer); err == nil && !strings.Contains(string(answer[:n]), " 431 ") {
		t.Errorf("answered %q", answer[:n])
	}
}

// TestTurnsWhileAsked: everything may be told while requests come.
func TestTurnsWhileAsked(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	running(t, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			f.Waiting("a")
			f.Up()
			f.Serve(text("b"))
		}
	}()
	for {
		if g := ask(t, f, "GET", "/healthz"); g.status != 200 {
			t.Fatalf("%d %s", g.status, g.body)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// What is wrong with a part of the work is shown, and is no reason to be restarted.
func TestTroubleIsShown(t *testing.T) {
	f := New(Options{Address: "127.0.0.1:0"})
	running(t, f)
	f.Trouble([]string{"partition 3 is set aside"})
	ask(t, f, "GET", "/readyz").problem(t, 503)
	f.Up()
	want := "{\"status\":\"ok\",\"trouble\":[\"partition 3 is set aside\"]}\n"
	if g := ask(t, f, "GET", "/readyz"); g.status != 200 || g.body != want {
		t.Errorf("readyz: %d %s", g.status, g.body)
	}
	if g := ask(t, f, "GET", "/healthz"); g.status != 200 || g.body != alive {
		t.Errorf("healthz: %d %s", g.status, g.body)
	}
	f.Trouble(nil)
	if g := ask(t, f, "GET", "/readyz"); g.status != 200 || g.body != alive {
		t.Errorf("readyz: %d %s", g.status, g.body)
	}
}

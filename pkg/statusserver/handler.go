// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/loopback"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// handler answers as the mode of the moment says.
func (f *Server) handler() http.Handler {
	metrics := f.options.Metrics
	if metrics == nil {
		metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rest.NewProblem(compute.NotFound("path", r.URL.Path, "this process shows no metrics")).Answer(w)
		})
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			readOnly(f.guarded(metrics)).ServeHTTP(w, r)
			return
		}
		now := f.now()
		defer now.busy.Done()
		now.handle(w, r)
	})
	return limitAddresses(f.rates, f.metrics, onlyOurNames(f.options.Address, answer))
}

func (f mode) handle(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.stops && r.URL.Path == "/readyz":
		notYet(w, stopping)
	case f.handler != nil:
		f.handler.ServeHTTP(w, r)
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && f.awaited == "":
		readOnly(http.HandlerFunc(f.ok)).ServeHTTP(w, r)
	case f.awaited != "":
		notYet(w, f.awaited)
	default:
		rest.NewProblem(compute.NotFound("path", r.URL.Path, "there are /healthz, /readyz and /metrics")).Answer(w)
	}
}

func (f mode) ok(w http.ResponseWriter, r *http.Request) {
	status := struct {
		Status  string   `json:"status"`
		Trouble []string `json:"trouble,omitempty"`
	}{Status: "ok"}
	if r.URL.Path == "/readyz" {
		status.Trouble = f.trouble
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(status) // the caller may be gone
}

// stopping is what /readyz says of a daemon that was told to stop.
const stopping = "stopping"

func notYet(w http.ResponseWriter, awaited string) {
	w.Header().Set("Retry-After", "1")
	rest.NewProblem(&compute.Error{
		Kind: compute.KindUnavailable, Message: "not ready: " + awaited, Remedy: "try again in a moment",
	}).Answer(w)
}

// readOnly refuses what would change something.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		p := rest.NewProblem(compute.Invalid("method", r.Method, "use GET"))
		p.Status, p.Title = http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed)
		p.Answer(w)
	})
}

// onlyOurNames refuses requests for another host's name where only this machine
// is listened to. A page in a browser on this machine can make its own name lead
// to a loopback address; what it then asks looks like our own pages, but for the
// name. An address that others reach may have any name.
func onlyOurNames(address string, next http.Handler) http.Handler {
	ours, _, _ := net.SplitHostPort(address) // a bad one was not listened on
	if !loopback.Host(ours) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = strings.Trim(r.Host, "[]")
		}
		if name != "localhost" && net.ParseIP(name) == nil {
			rest.NewProblem(&compute.Error{
				Kind: compute.KindForbidden, Field: "Host", Value: r.Host, Message: "is no name of this server",
				Remedy: "ask for it by its address or as localhost",
			}).Answer(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

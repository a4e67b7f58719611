// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/ratelimit"
)

// TestPrincipalsAreLimited: one that asks all the time has its share, whatever addresses it comes
// from; others have theirs, and nobody is held back where nobody signs in.
func TestPrincipalsAreLimited(t *testing.T) {
	s := &Server{rates: ratelimit.New(ratelimit.Options{PerSecond: 10, Now: func() time.Time { return start }})}
	mux := http.NewServeMux()
	api := humago.New(mux, humaConfig(s.transformProblem))
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		if id := ctx.Header("Test-Id"); id != "" {
			ctx = huma.WithContext(ctx, auth.With(ctx.Context(), auth.Principal{ID: id, Name: "token:" + id}))
		}
		next(ctx)
	}, s.limitPrincipals)
	huma.Register(api, huma.Operation{OperationID: "nothing", Method: "GET", Path: "/"},
		func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
	served := func(id string, times int) (n int) {
		for i := range times {
			req := httptest.NewRequest("GET", "/", nil)
			req.Header.Set("Test-Id", id)
			req.RemoteAddr = "192.0.2.1:" + strconv.Itoa(i)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, req)
			if w.Code < 300 {
				n++
				continue
			}
			p := answer{t, w.Code, w.Header(), w.Body.Bytes()}.refused(429, compute.KindUnavailable)
			if p.Field != "limits.principal_rate" || p.Value != "10" || w.Header().Get("Retry-After") != "1" {
				t.Fatalf("%+v %v", p, w.Header())
			}
		}
		return n
	}
	if n := served("a", 1000); n != 20 {
		t.Errorf("a: %d, want twice the rate after a pause", n)
	}
	if n := served("b", 15); n != 15 {
		t.Errorf("b: %d of 15", n)
	}
	for _, id := range []string{"", auth.Anonymous().ID} {
		if n := served(id, 100); n != 100 {
			t.Errorf("%q: %d of 100", id, n)
		}
	}
}

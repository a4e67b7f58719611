// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/api/docs"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

type healthOutput struct {
	Body struct {
		Status  string   `json:"status" enum:"ok"`
		Trouble []string `json:"trouble,omitempty" doc:"What is wrong, and keeps the node from only a part of its work."`
	}
}

func (s *Server) routeHealth(api huma.API) {
	ok := func(context.Context, *noInput) (*healthOutput, error) {
		out := &healthOutput{}
		out.Body.Status = "ok"
		return out, nil
	}
	ready := func(ctx context.Context, in *noInput) (*healthOutput, error) {
		if err := s.checkKafka(ctx); err != nil {
			return nil, err
		}
		out, err := ok(ctx, in)
		out.Body.Trouble = s.trouble()
		return out, err
	}
	route(s, api, huma.Operation{
		OperationID: "ready", Method: http.MethodGet, Path: "/readyz", Tags: []string{"health"},
		Summary: "Whether the node has caught up and Kafka answers it",
	}, ready)
	huma.Register(api, huma.Operation{
		OperationID: "healthy", Method: http.MethodGet, Path: "/healthz", Tags: []string{"health"},
		Summary: "Whether the process answers at all", Responses: problems(api, nil),
	}, ok)
}

// trouble is what this node cannot do though it is ready.
func (s *Server) trouble() (lines []string) {
	if n := s.views.instances.unreadable(); n > 0 {
		lines = append(lines,
			fmt.Sprintf(
				"the records of %d instances are of a later schema than %d, the newest that this node reads: "+
					"upgrade it",
				n, wire.Schema,
			))
	}
	return lines
}

// routeDocs serves the OpenAPI document and a page that renders it. Who asks for / in a browser looks for the console.
func routeDocs(mux *http.ServeMux, document func() ([]byte, *compute.Error)) {
	for path, file := range docs.Files() {
		mux.Handle("GET "+path, file)
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		data, err := document()
		if err != nil {
			rest.NewProblem(err).Answer(w)
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("Content-Security-Policy", docs.Policy())
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(data) // the caller may be gone
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/ui/", http.StatusFound)
	})
}

// problemOf keeps the compiler from losing sight of what route relies on: a
// problem is an error with a status, and says its content type.
var _ interface {
	huma.StatusError
	huma.ContentTypeFilter
} = rest.NewProblem(&compute.Error{})

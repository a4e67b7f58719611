// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/api/docs"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// problems is how an operation answers when it refuses, for the document, beside its other answers.
func problems(api huma.API, others map[string]*huma.Response) map[string]*huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[rest.Problem](), true, "Problem")
	all := map[string]*huma.Response{"default": {
		Description: "A problem",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
	}}
	maps.Copy(all, others)
	return all
}

// openAPI makes the document of all operations. It is written when somebody first
// asks for it, and then never again: most nodes are never asked.
func openAPI(api huma.API) func() ([]byte, *compute.Error) {
	doc := api.OpenAPI()
	schemas := doc.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own problems leave as ours
	delete(schemas, "ErrorDetail")
	sent := map[string]bool{}
	for _, path := range doc.Paths {
		for _, op := range []*huma.Operation{path.Post, path.Put, path.Patch} {
			if op != nil && op.RequestBody != nil {
				delete(op.RequestBody.Content, "application/octet-stream") // huma's, where an operation looks at what was sent
				markReachable(op.RequestBody.Content["application/json"].Schema, schemas, sent)
			}
		}
	}
	for name, s := range schemas {
		if !sent[name] {
			s.AdditionalProperties = nil // answers gain fields with time; clients must not mind
		}
	}
	return sync.OnceValues(func() ([]byte, *compute.Error) {
		docs.Annotate(doc)
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return nil, &compute.Error{Op: "openapi", Kind: compute.KindInternal, Cause: err}
		}
		return append(data, '\n'), nil
	})
}

// markReachable notes the names of all schemas that a schema leads to.
func markReachable(s *huma.Schema, schemas map[string]*huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		if !seen[name] {
			seen[name] = true
			markReachable(schemas[name], schemas, seen)
		}
		return
	}
	markReachable(s.Items, schemas, seen)
	for _, p := range s.Properties {
		markReachable(p, schemas, seen)
	}
}

// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Requests is a middleware that refuses what would be read in another way than it may have been meant:
// a body that says it is no JSON, and a query that has a parameter twice or cannot
// be decoded, which Go leaves out without a word.
func Requests(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, _ := humago.Unwrap(ctx)
		if ctx.Operation().RequestBody != nil && !isJSON(r) {
			is := strings.Join(r.Header["Content-Type"], ", ")
			_ = huma.WriteErr(api, ctx, http.StatusUnsupportedMediaType, "is not said to be JSON in UTF-8, but "+is)
			return
		}
		if wrong := wrongQuery(r.URL.RawQuery, ctx.Operation().Parameters); wrong != nil {
			_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "validation failed", wrong)
			return
		}
		if r.Body == http.NoBody {
			ctx = bodiless{ctx}
		}
		next(ctx)
	}
}

// bodiless is the context of a request without a body. huma gives it some seconds to read one. Without one Go's server
// reads behind the request meanwhile, to hear of a caller that goes away; at that deadline it would take the caller for
// gone, and with it all later requests of the connection.
type bodiless struct{ humaContext }

type humaContext = huma.Context // which has a method Context

func (bodiless) SetReadDeadline(time.Time) error { return nil }

// Unwrap is for humago.Unwrap.
func (b bodiless) Unwrap() huma.Context { return b.humaContext }

// isJSON says whether the header lets the body be JSON, of a PATCH as a merge patch too. Without a type it is taken
// for JSON: the API takes nothing else. What huma would not recognise, as with a
// space before the semicolon or in upper case, is put as it does.
func isJSON(r *http.Request) bool {
	types := r.Header["Content-Type"]
	if len(types) == 0 || len(types) == 1 && types[0] == "" {
		return true
	}
	kind, params, err := mime.ParseMediaType(types[0])
	charset, said := params["charset"]
	known := kind == "application/json" || r.Method == http.MethodPatch && kind == "application/merge-patch+json"
	if err != nil || len(types) > 1 || !known || said && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	r.Header["Content-Type"] = []string{"application/json"}
	return true
}

// wrongQuery is what is wrong with a query that Go would take all the same.
func wrongQuery(raw string, params []*huma.Param) *huma.ErrorDetail {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return &huma.ErrorDetail{Location: "query", Message: "cannot be decoded: " + err.Error()}
	}
	lists := map[string]bool{}
	for _, p := range params {
		lists[p.Name] = p.In == "query" && p.Schema != nil && p.Schema.Type == huma.TypeArray
	}
	for name, values := range query {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) {
				return &huma.ErrorDetail{
					Location: "query." + strings.ToValidUTF8(name, "�"), Message: "is not valid UTF-8",
				}
			}
		}
		list, known := lists[name]
		if list && slices.Contains(values, "") { // huma would take it for none, and filter by nothing
			return &huma.ErrorDetail{Location: "query." + name, Message: "is empty: leave it out, or say which"}
		}
		if known && !list && len(values) > 1 {
			return &huma.ErrorDetail{
				Location: "query." + name, Message: "is given more than once", Value: strings.Join(values, ", "),
			}
		}
	}
	return nil
}

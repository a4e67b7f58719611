// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/api/strict"
	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// refusal is a problem with the headers that go with it.
type refusal struct {
	*rest.Problem
	header http.Header
}

// Unwrap lets the problem be seen.
func (r *refusal) Unwrap() error { return r.Problem }

// GetHeaders is what the HTTP library adds to the answer.
func (r *refusal) GetHeaders() http.Header { return r.header }

// Answer writes the refusal as the whole answer to a request.
func (r *refusal) Answer(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	r.Problem.Answer(w)
}

// answer writes a refusal from within a middleware, where transformProblem does not see it.
func (s *Server) answer(ctx huma.Context, r *refusal) {
	for name, values := range r.header {
		for _, v := range values {
			ctx.SetHeader(name, v)
		}
	}
	s.metrics.refusal(r.Kind, "")
	audit.Kind(ctx.Context(), r.Kind)
	ctx.SetHeader("Content-Type", r.ContentType(""))
	ctx.SetStatus(r.Status)
	_ = json.NewEncoder(ctx.BodyWriter()).Encode(r.Problem) // the caller may be gone
}

// refuse is the answer for an error. What the caller does not get to see, the
// causes of our own faults, goes to the log.
func (s *Server) refuse(ctx context.Context, op string, err error) *refusal {
	var e *compute.Error
	if !errors.As(err, &e) {
		e = &compute.Error{Kind: compute.KindInternal, Cause: err}
	}
	if e.Kind == compute.KindInternal || e.Cause != nil {
		request, _ := ctx.Value(requestKey{}).(string)
		s.log.Error("request failed", zap.String("operation", op), zap.String("request", request),
			zap.Stringer("kind", e.Kind), zap.Error(err))
	}
	if e.Kind == compute.KindInternal && e.Message == "" {
		internal := *e
		internal.Message, internal.Remedy = "something went wrong on the server", "see its log"
		e = &internal
	}
	r := &refusal{Problem: rest.NewProblem(e), header: http.Header{}}
	after := time.Duration(0)
	if e.Kind == compute.KindUnavailable || e.Kind == compute.KindTimeout {
		after = time.Second
	}
	var l *retryLater
	if errors.As(err, &l) {
		after = max(after, l.after)
		if l.status != 0 && l.why == e { // and it is not the cause of another refusal
			r.Status, r.Title = l.status, http.StatusText(l.status)
		}
	}
	if e.Kind == compute.KindUnauthenticated {
		r.header.Set("WWW-Authenticate", "Bearer")
	}
	if after > 0 {
		r.header.Set("Retry-After", strconv.Itoa(int(after.Seconds())))
	}
	return r
}

// transformProblem sees every answer. It turns what huma itself refuses into the
// same kind of problem, and counts them all.
func (s *Server) transformProblem(ctx huma.Context, _ string, v any) (any, error) {
	var p *rest.Problem
	switch v := v.(type) {
	case *huma.ErrorModel:
		p = fromHuma(v)
	case *refusal:
		p = v.Problem
	case *rest.Problem:
		p = v
	default:
		return v, nil
	}
	reason := compute.ReasonCode("")
	if p.Reason != nil {
		reason = p.Reason.Code
	}
	s.metrics.refusal(p.Kind, reason)
	audit.Kind(ctx.Context(), p.Kind)
	return p, nil
}

// fromHuma says what does not fit the schema in our words: which field, what it
// was, and what to give instead.
func fromHuma(m *huma.ErrorModel) *rest.Problem {
	p := &rest.Problem{Status: m.Status, Title: m.Title, Message: m.Detail, Kind: rest.Foreign(m.Status).Kind.String()}
	for _, e := range m.Errors {
		if e != nil {
			p.Errors = append(p.Errors, rest.Defect{
				Message: e.Message, Location: e.Location, Value: shownValue(e.Location, e.Value),
			})
		}
	}
	switch {
	case m.Status == http.StatusInternalServerError:
		p.Errors, p.Message, p.Remedy = nil, "something went wrong on the server", "see its log"
	case len(p.Errors) > 0:
		first := p.Errors[0]
		p.Field, p.Value, p.Message, p.Remedy = fieldOf(first.Location), scalar(first.Value), first.Message,
			"see /docs for what it takes"
		if strings.HasPrefix(first.Message, "expected") {
			p.Message, p.Remedy = "does not fit", first.Message
		}
		if d, ok := strict.DefectIn(first.Message); ok {
			d.Apply(p)
		}
	default:
		p.Field, p.Remedy = "body", remedyFor(m.Status)
		if m.Status == http.StatusRequestEntityTooLarge {
			p.Message = "is too large"
		}
	}
	p.Type = "urn:berth:problem:" + p.Kind
	p.Detail = p.Compute().Error()
	return p
}

// remedyFor is what to do about a body that was refused as a whole.
func remedyFor(status int) string {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return "send less: at most 1 MiB to boot a machine, 64 KiB for anything else"
	case http.StatusUnsupportedMediaType:
		return "send JSON, as Content-Type: application/json"
	case http.StatusRequestTimeout:
		return "send it faster"
	}
	return "send a JSON document; see /docs for what it takes"
}

// scalar is a value that fits in a line, as text.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool, float64, float32, int, int64, int32, uint64, uint32, json.Number:
		return fmt.Sprint(v)
	}
	return ""
}

// fieldOf is the field a location of huma's names: "body.flavor" is flavor.
func fieldOf(location string) string {
	_, field, found := strings.Cut(location, ".")
	if !found {
		return location
	}
	return field
}

// shownValue is what a problem shows of a value that does not fit: problems end up in logs, so nothing in which user
// data may be, and nothing large or hostile in full.
func shownValue(location string, v any) any {
	const most = 200
	switch v := v.(type) {
	case string:
		if mayHoldUserData(location) {
			return nil
		}
		if len(v) > most {
			return v[:most] + "…"
		}
		return v
	case bool, float64, float32, int, int64, int32, uint64, uint32, json.Number:
		return v
	}
	return nil
}

// mayHoldUserData says whether what is at a location of huma's, as in body.boots[0].ssh_keys[1], is user data, a key,
// or stands in place of something that has such fields. Boots are in lists too, so the last name alone counts.
func mayHoldUserData(location string) bool {
	name, _, _ := strings.Cut(location[strings.LastIndex(location, ".")+1:], "[")
	switch name {
	case "body", "boots", "mix", "user_data", "ssh_keys":
		return true
	}
	return false
}

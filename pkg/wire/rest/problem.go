// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/berth-project/berth/pkg/compute"
)

// Problem is every refusal of the API: RFC 9457, with what a program needs to
// act on it.
type Problem struct {
	Type     string   `json:"type,omitempty" doc:"A URI that names the kind of problem." example:"urn:berth:problem:not-found"`
	Title    string   `json:"title,omitempty" doc:"The HTTP status in words."`
	Status   int      `json:"status,omitempty" doc:"The HTTP status."`
	Detail   string   `json:"detail,omitempty" doc:"What is wrong and what to do, in one line."`
	Instance string   `json:"instance,omitempty" doc:"A URI for this occurrence."`
	Kind     string   `json:"kind,omitempty" enum:"internal,invalid,not-found,conflict,quota,no-capacity,forbidden,unavailable,timeout,unauthenticated" doc:"Stable; branch on this."`
	Field    string   `json:"field,omitempty" doc:"Which part of the input is wrong."`
	Value    string   `json:"value,omitempty" doc:"What it was."`
	Message  string   `json:"message,omitempty" doc:"One sentence for the person."`
	Remedy   string   `json:"remedy,omitempty" doc:"What to do about it."`
	Reason   *Reason  `json:"reason,omitempty" doc:"The stable code with its numbers, where there is one."`
	Errors   []Defect `json:"errors,omitempty" nullable:"false" doc:"Every defect of a body or query that does not fit its schema."`
}

// Defect is one way in which a request does not fit its schema.
type Defect struct {
	Message  string `json:"message,omitempty"`
	Location string `json:"location,omitempty" doc:"As in body.flavor or query.state."`
	Value    any    `json:"value,omitempty"`
}

// statusOf is the HTTP status of each kind.
func statusOf(k compute.Kind) int {
	switch k {
	case compute.KindInvalid:
		return http.StatusUnprocessableEntity
	case compute.KindNotFound:
		return http.StatusNotFound
	case compute.KindConflict, compute.KindNoCapacity:
		return http.StatusConflict
	case compute.KindQuota, compute.KindForbidden:
		return http.StatusForbidden
	case compute.KindUnauthenticated:
		return http.StatusUnauthorized
	case compute.KindUnavailable:
		return http.StatusServiceUnavailable
	case compute.KindTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// kindOf guesses the kind of an answer that does not say: another server's, or
// one of the HTTP library.
func kindOf(status int) compute.Kind {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return compute.KindNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return compute.KindConflict
	case http.StatusUnauthorized:
		return compute.KindUnauthenticated
	case http.StatusForbidden:
		return compute.KindForbidden
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return compute.KindUnavailable
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return compute.KindTimeout
	}
	if status >= 400 && status < 500 {
		return compute.KindInvalid
	}
	return compute.KindInternal
}

// NewProblem is what the API answers for an error. Causes are for the
// operator's log and are left out.
func NewProblem(e *compute.Error) *Problem {
	public := *e
	public.Cause, public.Op = nil, ""
	p := &Problem{
		Type: "urn:berth:problem:" + e.Kind.String(), Kind: e.Kind.String(), Status: statusOf(e.Kind),
		Detail: public.Error(),
		Field:  e.Field, Value: e.Value, Message: e.Message, Remedy: e.Remedy, Reason: FromReason(e.Reason),
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// TooMany is the problem of a caller that asks too often: 429.
func TooMany(e compute.Error) *Problem {
	e.Kind, e.Remedy = compute.KindUnavailable, "try again later; nothing was done"
	p := NewProblem(&e)
	p.Status, p.Title = http.StatusTooManyRequests, http.StatusText(http.StatusTooManyRequests)
	return p
}

// Compute is the problem as an error, its kind preserved.
func (p *Problem) Compute() *compute.Error {
	e := &compute.Error{
		Kind: compute.ParseKind(p.Kind), Field: p.Field, Value: p.Value,
		Message: p.Message, Remedy: p.Remedy, Reason: p.Reason.Compute(),
	}
	if p.Kind == "" {
		e.Kind = kindOf(p.Status)
	}
	if e.Field == "" && e.Message == "" && e.Remedy == "" {
		e.Message = p.Detail
	}
	if e.Message == "" && e.Field == "" && e.Reason == nil {
		e.Message = p.Title
	}
	return e
}

// Foreign is the error of an answer that is none of ours.
func Foreign(status int) *compute.Error {
	return &compute.Error{
		Kind: kindOf(status), Message: "the server answered " + http.StatusText(status),
		Remedy: "is this the address of a Berth API node?", Cause: foreignAnswer(status),
	}
}

// foreignAnswer is the HTTP status of an answer that is none of ours.
type foreignAnswer int

func (s foreignAnswer) Error() string { return "HTTP status " + strconv.Itoa(int(s)) }

// IsForeign says whether an error is of an answer that is none of ours: a proxy's, say, that has no API node to ask.
func IsForeign(err error) bool {
	var status foreignAnswer
	return errors.As(err, &status)
}

// Error is the one line for logs.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status, for the HTTP library.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType says that this is a problem document, for the HTTP library.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Answer writes the problem as the whole answer to a request.
func (p *Problem) Answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller may be gone
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/ratelimit"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// limitPrincipals refuses requests of a caller from which too many come, whatever addresses it has.
// Where nobody signs in all callers are one, and none is held back.
func (s *Server) limitPrincipals(ctx huma.Context, next func(huma.Context)) {
	p, known := auth.From(ctx.Context())
	if !known || p.ID == auth.Anonymous().ID {
		next(ctx)
		return
	}
	wait, ok := s.rates.Allow(p.ID)
	if ok {
		next(ctx)
		return
	}
	problem := rest.TooMany(compute.Error{
		Field: "limits.principal_rate", Value: fmt.Sprint(s.rates.PerSecond()),
		Message: p.Name + " sends more requests a second",
	})
	s.answer(ctx, &refusal{Problem: problem, header: http.Header{"Retry-After": {ratelimit.Seconds(wait)}}})
}

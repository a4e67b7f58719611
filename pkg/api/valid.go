// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/api/capabilities"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeCapabilities(api huma.API) {
	op := huma.Operation{
		OperationID: "list-capabilities", Method: http.MethodGet, Path: "/v1/capabilities", Tags: []string{"capabilities"},
		Summary: "Say what is valid in a request",
		Description: "Flavors, the axes that they may be combined with, limits, what names look like, states, and reason " +
			"codes: what a client has to know to make a request that is not refused for what it says. It changes only " +
			"with what is offered and with the version of Berth, and has an ETag: with If-None-Match the answer is 304, " +
			"without a body, while it is the same.",
	}
	route(s, api, op, s.listCapabilities)
}

type capabilitiesInput struct {
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" doc:"Most items in one answer; left out: all."`
	Marker      string `query:"marker" doc:"The next of the page before: items go on behind it."`
	IfNoneMatch string `header:"If-None-Match" doc:"ETags of what the caller has, with commas between them."`
}

type capabilitiesOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"Changes with the document, and only then."`
	Body   rest.Capabilities
}

func (s *Server) listCapabilities(_ context.Context, in *capabilitiesInput) (*capabilitiesOutput, error) {
	axes, next := s.config.Catalog.Capabilities(), ""
	if in.Limit > 0 || in.Marker != "" {
		paging := Paging{Limit: in.Limit, Marker: in.Marker}
		if paging.Limit == 0 {
			paging.Limit = len(axes)
		}
		axes, next = pageOfNames(paging, axes, func(c compute.Capability) compute.AxisName { return c.Axis })
	}
	doc := capabilities.Document(capabilities.Offer{
		API: version, Reads: s.config.Reads, Flavors: s.config.Catalog.Flavors(), Axes: axes, Limits: limits(),
		Names: []rest.NameRule{{Of: keyHeader, Pattern: keyPattern, Most: maxKey}},
	})
	doc.Next = next
	tag, err := capabilities.Tag(doc)
	if err != nil {
		return nil, err
	}
	out := &capabilitiesOutput{Status: http.StatusOK, ETag: tag, Body: doc}
	if capabilities.Known(tag, in.IfNoneMatch) {
		out.Status = http.StatusNotModified
	}
	return out, nil
}

// limits are those of the API itself.
func limits() []rest.Limit {
	return []rest.Limit{
		{Request: "boot", Field: keyHeader, Unit: "bytes", Most: maxKey},
		{Request: "boot", Field: "body", Unit: "bytes", Most: maxBootBody},
		{Request: "placements", Field: "mix", Unit: "kinds", Most: compute.MaxKinds},
		{Request: "placements", Field: "count", Unit: "machines in all", Most: compute.MaxBoots},
		{Request: "placements", Field: "body", Unit: "bytes", Most: maxBootBody},
		{Request: "any other", Field: "body", Unit: "bytes", Most: maxBody},
		capabilities.Tagged("power", reflect.TypeFor[rest.PowerWish](), "Command", "bytes"),
		capabilities.Tagged("console", reflect.TypeFor[consoleInput](), "Limit", "bytes"),
		capabilities.Tagged("list", reflect.TypeFor[Paging](), "Limit", "entries"),
		capabilities.Tagged("list", reflect.TypeFor[listInput](), "ID", "ids"),
		capabilities.Tagged("events", reflect.TypeFor[eventsInput](), "Reason", "reasons"),
		capabilities.Tagged("host", reflect.TypeFor[rest.HostWish](), "Reason", "characters"),
		capabilities.Tagged("dead host", reflect.TypeFor[rest.DeadHost](), "Reason", "characters"),
		capabilities.Tagged("dead host", reflect.TypeFor[rest.DeadHost](), "By", "characters"),
		{Request: "token", Field: "name", Unit: "bytes", Most: compute.MaxTokenName},
		{Request: "token", Field: "expires_in", Unit: "seconds", Most: int64(maxTokenLife / time.Second)},
	}
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/rejected"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// listRejected is the operation.
const listRejected = "list-rejected"

func (s *Server) routeRejected(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: listRejected, Method: http.MethodGet, Path: "/v1/rejected", Tags: []string{"access"},
		Summary: "List which records were refused, and why: the newest first",
		Description: "What conductors, queue managers and agents could not read, or did not believe. A project sees " +
			"the requests that name it, operators everything with project=*. It is read from Kafka for each " +
			"request, about 10,000 records for a page: where that was not enough, stopped_early is true, and next " +
			"goes on with what is older. Kafka keeps them for 14 days.",
	}, s.listRejected)
}

type rejectedInput struct {
	Paging
	Project compute.Project    `query:"project" doc:"Requests that name it; left out, \"default\". * means everything, for operators."`
	Topic   string             `query:"topic" maxLength:"256" doc:"Records of this topic alone." example:"requests"`
	Record  string             `query:"record" maxLength:"300" doc:"This one alone." example:"requests/3/41"`
	Reason  compute.ReasonCode `query:"reason" maxLength:"64" doc:"For this reason alone." example:"Malformed"`
	Since   time.Time          `query:"since" doc:"No older than this."`
}

type rejectedOutput struct{ Body rest.RejectedPage }

func (s *Server) listRejected(ctx context.Context, in *rejectedInput) (*rejectedOutput, error) {
	project, err := oneOrAll(callerOf(ctx), in.Project)
	if err != nil {
		return nil, err
	}
	q := rejected.Query{
		Wanted: rejected.Wanted{Project: project, Topic: in.Topic, Record: in.Record, Reason: in.Reason},
		Since:  in.Since, Limit: in.Limit,
	}
	if in.Marker != "" {
		before, err := events.ParsePositions(in.Marker)
		if err != nil {
			return nil, compute.Invalid("marker", in.Marker, "give the next of the page before")
		}
		q.Before = before
	}
	page, err := s.readRejected(ctx, q)
	if err != nil {
		return nil, notRead("read what was refused", err)
	}
	out := &rejectedOutput{Body: rest.RejectedPage{
		Items: page.Items, Read: page.Read, Garbled: page.Garbled, StoppedEarly: page.StoppedEarly,
	}}
	if page.Before != nil {
		out.Body.Next = events.Positions(page.Before).String()
	}
	show := s.presenter(ctx)
	for i := range out.Body.Items {
		r := &out.Body.Items[i]
		if show.names {
			continue
		}
		r.Detail, r.Host = show.text(r.Detail, r.Host), show.host(r.Host)
	}
	return out, nil
}

// readRejected reads a page once few others are read.
func (s *Server) readRejected(ctx context.Context, q rejected.Query) (page rejected.Page, err error) {
	if s.config.Rejected == nil {
		return rejected.Page{Items: []rest.Rejected{}}, nil
	}
	err = s.onePage(ctx, func(ctx context.Context) error {
		page, err = rejected.ReadPage(ctx, s.config.Rejected, s.config.Topics, q)
		return err
	})
	return page, err
}

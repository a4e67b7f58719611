// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// What of the audit may be an instance's: entries are dated by the clocks of API nodes, Kafka finds them by its own.
const (
	clocksDiffer = 2 * time.Minute
	mostAsks     = 200 // entries about one instance that are shown
)

func (s *Server) routeStory(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "show-story", Method: http.MethodGet, Path: "/v1/instances/{id}/events", Tags: []string{"instances"},
		Summary: "Tell what became of an instance, and who asked for what",
		Description: "What its record says of its life, for as long as there is one: 15 days after it ended, or until " +
			"limits.ended others of its project have ended since. Where " +
			"this node keeps an audit, who asked for what, of the last 90 days: what went well, and for operators " +
			"what was refused too. The audit is read from Kafka for each request, about 40,000 entries at most: " +
			"asked says whether that was enough. For each single change, as long as nodes know them, see /v1/events.",
	}, s.showStory)
}

type storyOutput struct{ Body rest.Story }

func (s *Server) showStory(ctx context.Context, in *InstanceInput) (*storyOutput, error) {
	at, k, err := s.named(ctx, in)
	if err != nil {
		return nil, err
	}
	i := s.presenter(ctx).instance(k, fields{"state"})
	out := &storyOutput{Body: rest.Story{
		ID: at.id, Project: at.project, Name: k.boot().Name, Items: rest.LifeOf(i), Asked: "off",
	}}
	if s.config.Trail == nil {
		return out, nil
	}
	asks, complete, err := s.asksOf(ctx, at, k.boot(), i.AcceptedAt, i.EndedAt)
	if err != nil {
		return nil, notRead("read the audit", err)
	}
	out.Body.Items = append(out.Body.Items, asks...)
	slices.SortStableFunc(out.Body.Items, func(a, b rest.StoryStep) int { return a.At.Compare(b.At) })
	if out.Body.Asked = "partly"; complete {
		out.Body.Asked = "complete"
	}
	return out, nil
}

// asksOf are the entries of the audit about an instance: those about when it was asked for, and the newest since then.
// That of a set is kept under the first of it, and that of a placeholder under its reservation.
func (s *Server) asksOf(
	ctx context.Context, at instanceKey, b *compute.Boot, accepted, ended time.Time,
) (steps []rest.StoryStep, complete bool, err error) {
	all := audit.Query{
		Wanted: audit.Wanted{Project: at.project, Target: "instance/" + string(at.id)}, Before: -1, Limit: mostAsks,
	}
	if !callerOf(ctx).ReadsAll() {
		all.Result = "ok" // who was refused may be of another project
	}
	first, later := all, all
	if !accepted.IsZero() {
		first.Since, first.Until = accepted.Add(-clocksDiffer), accepted.Add(clocksDiffer)
		later.Since = first.Until
	}
	if !ended.IsZero() {
		later.Until = ended.Add(clocksDiffer)
	}
	asks := []audit.Query{first, later}
	if accepted.IsZero() {
		asks = asks[:1] // both are the same
	}
	own := all.Target
	if set := b.Set().ID; set != "" && set != at.id {
		first.Target = "instance/" + string(set)
		asks = append(asks, first)
	}
	if of := b.Placeholder().Of; of != "" {
		for _, q := range asks[:len(asks):len(asks)] {
			q.Target = "reservation/" + string(of)
			asks = append(asks, q)
		}
	}
	complete = true
	for _, q := range asks {
		page, err := s.readAudit(ctx, q)
		if err != nil {
			return nil, false, err
		}
		complete = complete && page.Next < 0
		for _, e := range page.Entries {
			if ofSet := strings.HasPrefix(q.Target, "instance/") && q.Target != own; ofSet && !bootsSet(e) {
				continue // it is about the first of the set alone
			}
			steps = append(steps, stepOf(e))
		}
	}
	return steps, complete, nil
}

func bootsSet(e compute.AuditEntry) bool {
	return e.Operation == "boot-set" || e.Operation == "boot-group"
}

func stepOf(e compute.AuditEntry) rest.StoryStep {
	return rest.StoryStep{
		At: e.At.UTC(), Source: "audit", What: e.Operation, Who: e.Who, Status: e.Status, Kind: e.Kind, Request: e.Request,
	}
}

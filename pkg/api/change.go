// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

const changeDescription = "Answered once the request cannot be lost, with the instance as it will be, by what this " +
	"node knows; it is shown so once a conductor has read the request, mostly within milliseconds. As a JSON merge " +
	"patch has it (RFC 7396): what is left out stays, and null takes an entry out of the metadata; a name or " +
	"metadata that is null itself counts as left out. Requests are obeyed in their order, so two that change " +
	"different entries at once both count; one that is repeated takes effect again, over what others changed " +
	"meanwhile. 409 if the instance is deleted. What another request makes impossible in between a conductor " +
	"refuses (list-rejected). Its guest keeps the name and the metadata that it was launched with; work that no " +
	"host has taken yet may have either, another attempt has the new."

func (s *Server) routeChange(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "change-instance", Method: http.MethodPatch, Path: "/v1/instances/{id}", Tags: []string{"instances"},
		DefaultStatus: http.StatusAccepted, Summary: "Give an instance another name or other labels",
		Description: changeDescription,
	}, s.amend)
}

type changeInput struct {
	InstanceInput
	Body rest.InstanceChange
}

// amend publishes the request, unless it can be seen that the conductor will refuse it.
func (s *Server) amend(ctx context.Context, in *changeInput) (*acceptedOutput, error) {
	change := in.Body.Compute()
	if err := change.Check(); err != nil {
		return nil, err
	}
	at, k, err := s.named(ctx, &in.InstanceInput)
	if err != nil {
		return nil, err
	}
	after, err := changed(k, change)
	if err != nil { // others may know better
		if err := s.catchUp(ctx, at.project); err != nil {
			return nil, err
		}
		if now, ok := s.views.instances.get(at); ok {
			k = now
		}
		if after, err = changed(k, change); err != nil {
			return nil, err
		}
	}
	_, err = s.publish(ctx, &compute.Request{
		Project: at.project, Instance: at.id, Op: compute.OpChange, Change: &change,
		At: s.config.Now().UTC(), Trace: traceOf(in.Traceparent),
	})
	if err != nil {
		return nil, err
	}
	return &acceptedOutput{Location: location(at), Body: s.presenter(ctx).instance(after, nil)}, nil
}

// changed is an instance as it will be after a change, or why it cannot be changed, as far as is known.
func changed(k entry, c compute.Change) (entry, error) {
	if k.state() == compute.StateDeleted {
		return k, compute.Conflict(
			"instance",
			string(k.key().id),
			"is deleted",
			"only what is there has a name and labels",
		)
	}
	if k.boot().IsPlaceholder() {
		return k, errNoMachine(k.key().id, k.boot())
	}
	boot, err := c.Apply(*k.boot())
	if err != nil {
		return k, err
	}
	if k.instance != nil {
		after := *k.instance
		after.Boot, k.instance = boot, &after
	} else {
		after := *k.request
		after.Boot, k.request = &boot, &after
	}
	return k, nil
}

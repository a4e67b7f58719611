// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

const powerDescription = "Answered once the request cannot be lost; the instance shows it as command until its " +
	"host has answered, " +
	"and then as answer. A newer command takes the place of one that is not answered yet. With a command id " +
	"of the caller's own it may be repeated: the last command with the same id is not done again. 409 unless " +
	"the instance is active (or unknown: then its host acts on it when it is back), and where its place is taken for " +
	"other work (preemptible): then it takes a stop alone, and none once its host is told to destroy it."

func (s *Server) routePower(api huma.API) {
	for _, w := range []struct {
		op            compute.RequestOp
		summary, more string
	}{
		{
			compute.OpStop, "Stop a machine",
			" The guest is asked to shut down, and cut off if it does not within the host's patience (30 s); " +
				"hard cuts it off at once. It keeps its share of its host and of the quota.",
		},
		{compute.OpStart, "Start a stopped machine again, from its disk", ""},
		{
			compute.OpReboot, "Reboot a running machine",
			" Soft as stop and start do, hard by a reset. 409 if it is stopped. Done at most once; " +
				"answer.failed says why it was not.",
		},
	} {
		route(s, api, huma.Operation{
			OperationID: w.op.String() + "-instance", Method: http.MethodPost,
			Path: "/v1/instances/{id}/" + w.op.String(), Tags: []string{"instances"},
			DefaultStatus: http.StatusAccepted, Summary: w.summary, Description: powerDescription + w.more,
		}, func(ctx context.Context, in *powerInput) (*powerOutput, error) { return s.power(ctx, in, w.op) })
	}
}

type powerInput struct {
	InstanceInput
	Body *rest.PowerWish `required:"false"`
}

type powerOutput struct {
	Location string `header:"Location"`
	Body     rest.PowerAsked
}

// power publishes a power command, unless it can be seen that it makes no sense.
func (s *Server) power(ctx context.Context, in *powerInput, op compute.RequestOp) (*powerOutput, error) {
	var wish rest.PowerWish
	if in.Body != nil {
		wish = *in.Body
	}
	if wish.Hard && op == compute.OpStart {
		return nil, compute.Invalid("hard", "true", "there is one way to start: leave it out")
	}
	at, k, err := s.named(ctx, &in.InstanceInput)
	if err != nil {
		return nil, err
	}
	if mayPower(k, op, wish.Command) != nil { // others may know better
		if err := s.catchUp(ctx, at.project); err != nil {
			return nil, err
		}
		if now, ok := s.views.instances.get(at); ok {
			k = now
		}
		if err := mayPower(k, op, wish.Command); err != nil {
			return nil, err
		}
	}
	if wish.Command == "" {
		wish.Command = compute.CommandID(uuid.NewString())
	}
	if _, was := k.instance.Commanded(wish.Command); !was {
		_, err := s.publish(ctx, &compute.Request{
			Project: at.project, Instance: at.id, Op: op, Hard: wish.Hard, Command: wish.Command,
			At: s.config.Now().UTC(), Trace: traceOf(in.Traceparent),
		})
		if err != nil {
			return nil, err
		}
	}
	asked := rest.PowerAsked{ID: at.id, Op: op.String(), Command: wish.Command}
	return &powerOutput{Location: location(at), Body: asked}, nil
}

// errNoMachine refuses to do to a placeholder what is for machines.
func errNoMachine(id compute.InstanceID, b *compute.Boot) error {
	of := b.Placeholder().Of
	return compute.Conflict("instance", string(id),
		fmt.Sprintf("is a placeholder of reservation %s, and has no machine", of),
		fmt.Sprintf("name the machine that has its room: berth reservation show %s", of))
}

// errGoes refuses a command for a machine whose place is taken for other work.
func errGoes(i *compute.Instance) error {
	why := i.Notice().Reason(i.Attempt)
	remedy := "boot another one: this one becomes deleted"
	if i.Boot.Preemptible().Then == compute.ThenRequeue {
		remedy = "wait: it is built anew once its host has it no more"
	}
	e := compute.Conflict("instance", string(i.ID), "goes: "+why.Detail, remedy)
	e.Reason = why
	return e
}

// mayPower refuses what makes no sense as far as is known. The conductor has the
// last word: what it refuses is in rejected.
func mayPower(k entry, op compute.RequestOp, c compute.CommandID) error {
	const remedy = "only an active instance can be stopped, started and rebooted"
	i := k.instance
	if i == nil {
		return compute.Conflict("instance", string(k.key().id), "no conductor has read it yet", remedy)
	}
	before, was := i.Commanded(c)
	switch {
	case i.IsPlaceholder():
		return errNoMachine(i.ID, &i.Boot)
	case was && before != op:
		return compute.Conflict("command", string(c), "was given to "+before.String(),
			"give each command an id of its own")
	case was:
		return nil
	case i.State != compute.StateActive:
		return compute.Conflict("instance", string(i.ID), "is "+i.State.String(), remedy)
	case i.Notice() != nil && (i.Notice().Going || op != compute.OpStop):
		return errGoes(i)
	case op == compute.OpReboot && i.Power == compute.PowerStopped && i.Command == nil:
		e := compute.Conflict("instance", string(i.ID), "is stopped", "start it instead")
		e.Reason = i.Stopped
		return e
	}
	return nil
}

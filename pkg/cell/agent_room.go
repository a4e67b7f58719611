// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// withRoom makes a part of an agent, and waits where its disk is full: what fills it
// may be machines, and an agent that ended over it could be started again and again,
// and would say nothing. An operator that makes room need not think of the agent. Likewise
// it waits for the disk of its machines, which may be mounted late.
func withRoom[T any](ctx context.Context, c Cell, make func(context.Context) (T, error)) (T, error) {
	said := ""
	for {
		made, err := make(ctx)
		why := ""
		switch {
		case errors.Is(err, home.ErrAway):
			why = "waiting for this host's machines: " + err.Error()
		case compute.DiskFull(err):
			why = "waiting for room on this host's disk: " + err.Error()
		default:
			return made, err
		}
		switch {
		case c.Waiting != nil:
			c.Waiting(why)
		case why != said:
			c.Log.Warn(why, zap.Duration("again within", againAfter))
			said = why
		}
		if !service.Sleep(ctx, service.Jitter(againAfter)) {
			return made, ctx.Err()
		}
	}
}

// agentWithRoom is NewAgent on a disk that may be full.
func agentWithRoom(ctx context.Context, c Cell, o AgentOptions) (service.Part, error) {
	return withRoom(ctx, c, func(context.Context) (service.Part, error) { return NewAgent(c, o) })
}

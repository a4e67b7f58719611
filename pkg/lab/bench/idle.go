// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/service"
)

// Idle is what a cell costs while nothing is asked of it: its hosts are empty and
// its queues too.
type Idle struct {
	Seconds float64 `json:"seconds"`
	// Requests a second, by role and API.
	Requests map[lab.Role]map[string]float64 `json:"requests_per_s"`
	// HostRequests is how many of them one host's agent makes.
	HostRequests float64 `json:"requests_per_s_of_a_host"`
	CPU          CPU     `json:"cpu_s"`
	Served       *Served `json:"served_per_s"`
}

// idle measures that for a while, if it is wanted.
func (r *run) idle(ctx context.Context) error {
	if r.o.Idle == 0 {
		return nil
	}
	r.say("idle for %s", r.o.Idle)
	began := time.Now()
	before, err := r.opening(ctx)
	if err != nil {
		return err
	}
	if !service.Sleep(ctx, r.o.Idle) {
		return ctx.Err()
	}
	after, err := r.closing(ctx)
	if err != nil {
		return err
	}
	i := idleBetween(before, after, time.Since(began).Seconds(), r.o.Hosts)
	r.result.Idle = &i
	return nil
}

func idleBetween(before, after snapshot, seconds float64, hosts int) Idle {
	i := Idle{
		Seconds: round(seconds), Requests: rates(before.all.Traffic, after.all.Traffic, seconds),
		CPU: after.usage.since(before.usage, 0), Served: after.served.since(before.served, seconds),
	}
	for _, n := range i.Requests[lab.RoleAgent] {
		i.HostRequests += n
	}
	i.HostRequests = round(i.HostRequests / float64(hosts))
	return i
}

// rates is how many requests were answered a second, by role and API.
func rates(before, after map[lab.Role]traffic, seconds float64) map[lab.Role]map[string]float64 {
	out := map[lab.Role]map[string]float64{}
	for role, t := range after {
		out[role] = map[string]float64{}
		for api, a := range t.APIs {
			if n := a.N - before[role].APIs[api].N; n > 0 {
				out[role][api] = round(float64(n) / seconds)
			}
		}
	}
	return out
}

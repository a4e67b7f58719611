// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"

	"github.com/berth-project/berth/pkg/lab"
)

// snapshot is what was used and done up to a moment.
type snapshot struct {
	usage  usage
	all    report // of all processes together
	served *served
}

// opening is the snapshot before something is measured: the brokers are asked
// first, so that their answer costs what is measured nothing.
func (r *run) opening(ctx context.Context) (snapshot, error) {
	s, err := r.broker.ask(ctx)
	if err != nil {
		return snapshot{}, err
	}
	return r.used(ctx, s)
}

// closing is the snapshot after it: the brokers are asked last.
func (r *run) closing(ctx context.Context) (snapshot, error) {
	used, err := r.used(ctx, nil)
	if err == nil {
		used.served, err = r.broker.ask(ctx)
	}
	return used, err
}

func (r *run) used(ctx context.Context, s *served) (snapshot, error) {
	reports, err := r.reports(ctx)
	out := snapshot{usage: measureUsage(r.broker.pids), served: s}
	roles := map[lab.Role]float64{}
	var all []report
	for role, of := range reports {
		roles[role] = sum(of...).CPU
		all = append(all, of...)
	}
	out.all = sum(all...)
	out.usage.berth = out.all.CPU
	if len(r.remotes) > 0 {
		out.usage.roles = roles
	}
	return out, err
}

// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// Requests that make no sense show over the API: a project those that name it, operators all.
func TestRejectedOverTheAPI(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b)
		projects := []string{"p", "q", "p"}
		next := 0
		thrown := r.throw(r.cell("test").Topics().Requests(), wire.AnyPartition, len(projects), func() wire.Record {
			next++
			return wire.Record{Key: []byte(projects[next-1]), Value: []byte("A SECRET")}
		})
		var mine []int64
		for i, rec := range thrown {
			if projects[i] == "p" {
				mine = append(mine, rec.Offset)
			}
		}
		slices.Sort(mine)
		ask := func(f client.RejectedFilter) (offsets []int64) {
			all, err := c.Rejected(t.Context(), f, 10)
			r.must(err)
			seen := map[place]bool{} // a conductor that was held up rejects again what it has not committed
			for _, x := range all {
				if x.Topic != "requests" || x.Reason != compute.Malformed || x.Detail == "" || x.Remedy == "" {
					t.Errorf("%+v", x)
				}
				if at := (place{x.Topic, x.Partition, x.Offset}); !seen[at] {
					seen[at] = true
					offsets = append(offsets, x.Offset)
				}
			}
			slices.Sort(offsets)
			return offsets
		}
		r.poll("the project's are shown", func() bool { return slices.Equal(ask(client.RejectedFilter{}), mine) })
		r.poll("all are shown", func() bool { return len(ask(client.RejectedFilter{AllProjects: true})) == 3 })
	})
}

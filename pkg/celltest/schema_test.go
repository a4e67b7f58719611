// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// written hears in which schemas the records of each instance are written.
type written struct {
	mu sync.Mutex
	in map[compute.InstanceID]string
}

func (w *written) take(recs []wire.Record, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rec := range recs {
		if _, id, err := wire.ParseInstanceKey(rec.Key); err == nil {
			if s := string(rec.Header(wire.HeaderSchema)); !strings.Contains(w.in[id], s) {
				w.in[id] += s
			}
		}
	}
}

// TestNewerSchemaIsWrittenOnceAllReadIt: conductors and agents of this version and of one
// that reads a schema more stand side by side. As long as one conductor of this version is
// a member of the group, nothing is written in the newer schema; once it has gone, it is.
func TestNewerSchemaIsWrittenOnceAllReadIt(t *testing.T) {
	inBubble(t, func(t *testing.T, n network) {
		r := newRigOn(t, n, n.broker(t), smallHosts(3)...)
		seen := &written{in: map[compute.InstanceID]string{}}
		c := r.cell("schemas")
		r.start("schemas", c.Committed(c.Topics().Instances(), seen.take))
		r.startQueues()
		r.startAPI()
		r.startConductor("old")
		r.startAgents(r.hosts[0])
		r.reads = wire.Schema + 1
		r.startConductor("new")
		r.startAgents(r.hosts[1:]...)
		r.reads = 0
		r.known(r.hosts...)
		user := r.as("p")
		r.offer(user, nil, []compute.Flavor{small("m1.small")})
		var all []compute.InstanceID
		boots := func(projects int, schema string) {
			t.Helper()
			var ids []compute.InstanceID
			for _, p := range r.everywhere(projects, compute.Resources{compute.Instances: 100}) {
				ids = append(ids, r.boot(p, 3, compute.Boot{Flavor: "m1.small"})...)
			}
			all = append(all, ids...)
			r.await(ids, compute.StateActive)
			r.poll("all are read", func() bool {
				seen.mu.Lock()
				defer seen.mu.Unlock()
				return !slices.ContainsFunc(ids, func(id compute.InstanceID) bool { return seen.in[id] == "" })
			})
			seen.mu.Lock()
			defer seen.mu.Unlock()
			for _, id := range ids {
				if seen.in[id] != schema {
					t.Errorf("%s is written in schema %s, want %s", id, seen.in[id], schema)
				}
			}
		}
		boots(8, "1")
		r.stop("old")
		service.Sleep(t.Context(), time.Minute) // virtual: the group shares out anew
		boots(8, strconv.Itoa(int(wire.Schema)+1))
		r.exactlyOnce(all)
		// The older agent had its share, of builds and commands that it reads.
		launched, err := r.world.Events()
		r.must(err)
		byOld := func(e fake.Event) bool { return e.Kind == fake.Launched && e.Host == r.hosts[0].ID }
		if !slices.ContainsFunc(launched, byOld) {
			t.Error("the agent of this version had nothing")
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// An agent whose journal was damaged while it was away begins a new one, finds
// its machines by the hypervisor, keeps them, and goes on.
func TestDamagedJournal(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHost(1))
		// The journal that is lost is known dead once it was silent for so long; nothing else here waits for that.
		r.times = admit.Defaults()
		r.times.QuietAfter, r.times.SilentAfter = time.Second, 2*time.Second
		r.up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		ids := r.boot(c, 8, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		host := string(r.hosts[0].ID)
		r.stop(host)
		path := filepath.Join(r.data, host+".journal")
		journal, err := os.ReadFile(path)
		r.must(err)
		for i := 2 * os.Getpagesize(); i < len(journal); i++ {
			journal[i] = 0xa5
		}
		r.must(os.WriteFile(path, journal, 0o600))
		r.startAgents(r.hosts...)
		if aside, err := filepath.Glob(path + ".damaged-*"); err != nil || len(aside) != 1 {
			t.Errorf("kept aside: %v, %v", aside, err)
		}
		more := r.boot(c, 4, compute.Boot{Flavor: "m1.small"})
		r.await(more, compute.StateActive)
		all := append(ids, more...)
		r.exactlyOnce(all)
		r.delete(c, all)
		r.await(all, compute.StateDeleted)
		r.unused(c)
		r.empty()
	})
}

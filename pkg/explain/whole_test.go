// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestAWholeSetIsTold: of a set that is offered whole it is said in which queue, and what one host must have free for
// it; what can be done is said where no host has that.
func TestAWholeSetIsTold(t *testing.T) {
	const whole = "offered whole in queue m1.xl: one host takes all of them, " +
		"for which it must have MEMORY_MB=8192 VCPU=8 free at once"
	const asks = "you: boot the set without its group"
	i := queued()
	i.Boot.InSet(compute.Set{ID: i.ID, Size: 3, Whole: "m1.xl"})
	needs := compute.Resources{compute.VCPU: 8, compute.MemoryMB: 8192}
	w := WantedBy(i)
	w.Resources = needs
	for name, c := range map[string]struct {
		whole      compute.Resources
		free       int64
		says, asks bool
	}{
		"no host has room": {needs, 4, true, true},
		"one has":          {needs, 8, true, false},
		"offered in parts": {nil, 4, false, false},
	} {
		hosts := []Host{host("h1", c.free)}
		got := toldOf(Facts{Instance: i, Whole: c.whole, Hosts: Hosts(w, hosts)}, hosts)
		if strings.Contains(got, whole) != c.says || strings.Contains(got, asks) != c.asks {
			t.Errorf("%s: %s", name, got)
		}
	}
}

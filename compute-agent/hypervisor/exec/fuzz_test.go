// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// FuzzAnswers reads what any command may print: it must not panic, and what is
// believed makes sense.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"version":1,"machines":[{"machine":{"version":1,` +
		`"instance":"00000000-0000-4000-8000-000000000001","attempt":1,"claim":"c"},` +
		`"state":"launched","power":"stopped"}]}`))
	f.Add([]byte(inventoryFile))
	f.Fuzz(func(t *testing.T, printed []byte) {
		var l listing
		var h holdings
		d := &Driver{o: Options{Command: []string{"/c"}}}
		if d.decode(call{verb: "list", answer: &l}, printed, &hypervisor.Said{}) == nil {
			all, _ := l.machines()
			for i, m := range all {
				if m.Instance.Check() != nil || i > 0 && all[i-1].Instance >= m.Instance ||
					m.Power == compute.PowerStopped && m.Detail == "" {
					t.Errorf("%q gives %+v", printed, m)
				}
			}
		}
		if d.decode(call{verb: "inventory", answer: &h}, printed, &hypervisor.Said{}) == nil {
			if inv, err := h.inventory(); err == nil && (len(inv.Totals) == 0 || within(
				"unmanaged", inv.Totals,
			) != nil) {
				t.Errorf("%q gives %+v", printed, inv)
			}
		}
	})
}

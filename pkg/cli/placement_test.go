// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestToGoSaysWhatIsKnown: a project hears how many machines would have to go, and an operator which.
func TestToGoSaysWhatIsKnown(t *testing.T) {
	four := compute.Resources{compute.VCPU: 4}
	for want, k := range map[string]client.Placement{
		"": {},
		"one more fits without 1 machine of the host that lacks least":  {ToGo: &client.ToGo{Machines: 1}},
		"one more fits without 2 machines of the host that lacks least": {ToGo: &client.ToGo{Machines: 2}},
		"one more fits without 1 machine (4 vCPU) of the host that lacks least, rack1: web of own": {ToGo: &client.ToGo{
			Machines: 1, Resources: four, Host: "rack1", Instances: []client.GoingInstance{{Name: "web", Project: "own"}},
		}},
	} {
		if got := toGo(k); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

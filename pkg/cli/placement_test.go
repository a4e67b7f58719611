// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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

// TestWholeSetIsInLineWhereItIsOffered, which is not the queue of its kind.
func TestWholeSetIsInLineWhereItIsOffered(t *testing.T) {
	for set, want := range map[string]string{
		"null": "in queue two,", `{"size":2}`: "in queue two,", `{"size":2,"whole":"six"}`: "in queue six,",
	} {
		var p client.Placements
		text := `{"set":` + set + `,"kinds":[{"queue":"two","count":2,"place":{"depth":1,"position":1}}]}`
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		line := ""
		for _, d := range placements(p, time.Now()) {
			if d.title == "In line" {
				line = d.value
			}
		}
		if !strings.Contains(line, want) {
			t.Errorf("%s: %q, want %s", set, line, want)
		}
	}
}

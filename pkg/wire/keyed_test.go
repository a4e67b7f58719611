// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// TestKeyedInstanceNeverChanges: these are promised to callers that repeat a key
// after an upgrade.
func TestKeyedInstanceNeverChanges(t *testing.T) {
	for _, c := range []struct {
		project compute.Project
		key     string
		want    compute.InstanceID
	}{
		{"default", "deploy-42", "d3e560ba-fc84-5afc-af8b-9c2d9c5cc179"},
		{"web", "deploy-42", "28b2c54b-e2db-58f6-a390-d199d4c7b558"},
		{"web", "\"quoted\"", "45479fb3-2dcf-5957-b9e9-138de494762c"},
	} {
		if got := KeyedInstance(c.project, c.key); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.project, c.key, got, c.want)
		}
	}
}

func TestKeyedInstancesDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			project compute.Project
			key     string
		}
		draw := func(who string) pair {
			return pair{
				compute.Project(rapid.StringMatching(`[a-z0-9]{1,3}`).Draw(t, who+" project")),
				rapid.StringMatching(`[!-~]{1,4}`).Draw(t, who+" key"),
			}
		}
		a, b := draw("a"), draw("b")
		if err := KeyedInstance(a.project, a.key).Check(); err != nil {
			t.Fatal(err)
		}
		if same := KeyedInstance(a.project, a.key) == KeyedInstance(b.project, b.key); same != (a == b) {
			t.Fatalf("%v and %v: same %v", a, b, same)
		}
	})
}

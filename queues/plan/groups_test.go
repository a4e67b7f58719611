// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Share state is looked for in every group that a listed queue names, and in as many
// as the queues may need; never in one without a name.
func TestGroupsToLookIn(t *testing.T) {
	listed := map[compute.QueueName]compute.Queue{"a": {Group: "old"}, "b": {}, "c": {Group: "g0"}}
	for _, c := range []struct {
		wanted int
		listed map[compute.QueueName]compute.Queue
		want   []string
	}{
		{0, nil, []string{"g0"}},
		{2, nil, []string{"g0", "g1"}},
		{5, nil, []string{"g0", "g1", "g2"}},
		{1, listed, []string{"g0", "g1", "old"}},
	} {
		if diff := cmp.Diff(c.want, Groups(c.wanted, c.listed, newWorld(2).rules)); diff != "" {
			t.Errorf("%d wanted, %d listed: %s", c.wanted, len(c.listed), diff)
		}
	}
}

func TestStepsHaveNames(t *testing.T) {
	for op, want := range map[Op]string{Close: "close", List: "list", List + 1: "step(7)", 99: "step(99)"} {
		if got := op.String(); got != want {
			t.Errorf("%d is %q, want %q", op, got, want)
		}
	}
}

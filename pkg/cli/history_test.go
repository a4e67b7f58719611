// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/berth-project/berth/pkg/client"
)

func TestStorySteps(t *testing.T) {
	for want, s := range map[string]client.StoryStep{
		"boot asked for": {Source: "audit", What: "boot", Status: 202},
		"delete asked for, refused: 403 forbidden": {Source: "audit", What: "delete-instance",
			Status: 403, Kind: "forbidden"},
		"admitted, queued":  {Source: "record", What: "admitted"},
		"attempt 1 failed":  {Source: "record", What: "attempt-failed", Attempt: 1},
		"attempt 2 granted": {Source: "record", What: "granted", Attempt: 2},
		"it ran":            {Source: "record", What: "active"},
		"stop under way":    {Source: "record", What: "power-asked", Op: "stop"},
		"stop done":         {Source: "record", What: "power-answered", Op: "stop"},
		"stop failed": {Source: "record", What: "power-answered",
			Op: "stop", Message: "no button"},
		"deleted": {Source: "record", What: "deleted"},
	} {
		if got := became(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if unasked("complete") != "" || unasked("off") == "" || unasked("partly") == unasked("off") {
		t.Error("what is said of who asked")
	}
}

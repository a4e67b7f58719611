// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersion(t *testing.T) {
	got := thisBuild(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"},
		{Key: "vcs.modified", Value: "true"},
		{Key: "vcs.time", Value: "2026-11-21T00:00:00Z"},
	}}, true)
	want := buildInfo{
		Version:  "v1.2.3",
		Commit:   "abc",
		Modified: true,
		Time:     "2026-11-21T00:00:00Z",
		Go:       got.Go,
		Platform: got.Platform,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for args, pattern := range map[string]string{
		"table": `^berth \S+, commit .+, go\S+, \w+/\w+\nBerth schedules .+\n$`, "json": `"go": "go`,
	} {
		var printed, said strings.Builder
		root := NewRoot()
		root.AddCommand(NewVersion())
		root.SetOut(&printed)
		root.SetErr(&said)
		code := Execute(t.Context(), root, []string{"version", "-o", args})
		if out, errs := printed.String(), said.String(); code != 0 || !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("exit %d: %q, %q", code, out, errs)
		}
	}
}

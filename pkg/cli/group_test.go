// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/client"
)

// TestGroupSetSaysWhatWasGiven and nothing else: what it had read of the rule may be another by then.
func TestGroupSetSaysWhatWasGiven(t *testing.T) {
	for args, want := range map[string]string{
		"--max-skew 2":              `{"max_skew":2}`,
		"--max-skew 0":              `{"max_skew":0}`,
		"--policy anti-affinity":    `{"policy":"anti-affinity"}`,
		"--spread=":                 `{"spread":""}`,
		"--over host":               `{"over":"host"}`,
		"--max-per-host 3":          `{"max_per_host":3}`,
		"--policy apart":            "",
		"--max-per-host 0":          "",
		"--over zone --max-skew 01": `{"over":"zone","max_skew":1}`,
	} {
		said := ""
		node := func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.Method != http.MethodPatch || r.URL.Path != "/v1/groups/web" {
				t.Errorf("%s %s: %v", r.Method, r.URL, err)
			}
			said += strings.TrimSpace(string(body))
			answer(w, http.StatusOK, client.Group{})
		}
		_, _, err := typed(t.Context(), t, node, newGroupSet, append([]string{"web"}, strings.Fields(args)...)...)
		if (err == nil) != (want != "") || said != want {
			t.Errorf("%s: %v; it says %s, want %s", args, err, said, want)
		}
	}
}

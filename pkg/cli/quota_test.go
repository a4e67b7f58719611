// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestQuotaSetSaysWhatWasGiven and nothing else: what it had read of the rest may be another by then.
func TestQuotaSetSaysWhatWasGiven(t *testing.T) {
	limit := int64(3)
	now := client.Quota{Project: "web", Weight: 2, WeightFrom: "project", Resources: []client.QuotaResource{
		{Class: compute.VCPU, Limit: &limit, From: "project"}, {Class: compute.DiskGB, Limit: &limit, From: "default"},
	}}
	for name, c := range map[string]struct {
		args []string
		code exitCode
		says string // empty: nothing
	}{
		"limits":   {[]string{"--instances", "5", "--memory", "1GiB"}, exitOK, `{"limits":{"INSTANCES":5,"MEMORY_MB":1024}}`},
		"a weight": {[]string{"--weight", "0"}, exitOK, `{"weight":0}`},
		"a class": {
			[]string{"--priority", "high", "--vcpus", "4"}, exitOK, `{"priorities":{"high":{"VCPU":4}}}`,
		},
		"one out":           {[]string{"--unset", "VCPU"}, exitOK, `{"limits":{"VCPU":null}}`},
		"one that is given": {[]string{"--unset", "DISK_GB"}, exitNotFound, ""},
		"one in and out":    {[]string{"--vcpus", "4", "--unset", "VCPU"}, exitUsage, ""},
		"another in and out": {
			[]string{"--priority", "high", "--instances", "4", "--unset", "INSTANCES", "--unset", "VCPU"}, exitUsage, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := ""
			node := func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					body, err := io.ReadAll(r.Body)
					if err != nil || r.Method != http.MethodPatch || !json.Valid(body) {
						t.Errorf("%s %s: %v", r.Method, body, err)
					}
					said += string(body)
				}
				answer(w, http.StatusOK, now)
			}
			_, _, err := typed(t.Context(), t, node, newQuotaSet, slices.Concat([]string{"web"}, c.args)...)
			if codeOf(err) != c.code || said != c.says {
				t.Errorf("%v; it says %q, want %q", err, said, c.says)
			}
		})
	}
}

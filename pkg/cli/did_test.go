// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestChangesAsData: commands that change something say it as data where they are asked to, and to a person as ever.
func TestChangesAsData(t *testing.T) {
	const change = `{"dry_run":%t,"added":0,"removed":3,"total":1}`
	dry, done := strings.Replace(change, "%t", "true", 1), strings.Replace(change, "%t", "false", 1)
	node := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/reservations"):
			answer(w, http.StatusOK, client.Reservation{Name: "r", Started: 2})
		case strings.HasSuffix(r.URL.Path, "/bad"):
			problem(w, http.StatusNotFound, compute.KindNotFound)
		case strings.HasPrefix(r.URL.Path, "/v1/flavors"), strings.HasPrefix(r.URL.Path, "/v1/capabilities"):
			answer(w, http.StatusOK, client.Change{DryRun: r.URL.Query().Has("dry_run"), Removed: 3, Total: 1})
		default:
			answer(w, http.StatusOK, struct{}{})
		}
	}
	for _, c := range []struct {
		command     func(*settings) *cobra.Command
		args        string
		data, table string // data: without blanks
		code        exitCode
	}{
		{newGroupDelete, "web", `{"name":"web"}`, "group web is deleted\n", 0},
		{newReservationDelete, "r", `{"project":"","name":"r",`, "reservation r ends; 2 that were booted into it go on\n", 0},
		{newTokenRevoke, "a", `{"id":"a"}`, "a counts no more\n", 0},
		{newTokenRevoke, "a b", `[{"id":"a"},{"id":"b"}]`, "a counts no more\nb counts no more\n", 0},
		{newTokenRevoke, "a bad b", `[{"id":"a"}]`, "a counts no more\n", exitNotFound},
		{newFlavorRemove, "f", done, "", 0},
		{newFlavorRemove, "f --dry-run", dry, "", 0},
		{newCapabilityRemove, "disk", done, "", 0},
		{newCapabilityRemove, "disk --dry-run", dry, "", 0},
		{newFlavorAdd, "f --vcpus 1 --dry-run", dry, "", 0},
		{newCapabilityAdd, "disk ssd --dry-run", dry, "", 0},
	} {
		out, _, err := typed(t.Context(), t, node, c.command, append(strings.Fields(c.args), "-o", "json")...)
		bare := strings.Join(strings.Fields(out), "")
		if !strings.HasPrefix(bare, c.data) || c.data == "" || codeOf(err) != c.code {
			t.Errorf("%s: %v, prints %q", c.args, err, out)
		}
		out, _, err = typed(t.Context(), t, node, c.command, strings.Fields(c.args)...)
		if out != c.table || codeOf(err) != c.code {
			t.Errorf("%s: %v, prints %q to a person", c.args, err, out)
		}
	}
}

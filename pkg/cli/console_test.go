// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestConsoleAsData: the parts of a console are one, also where its machine prints meanwhile, and its host drops.
func TestConsoleAsData(t *testing.T) {
	const parts = 5 * compute.MaxConsole / 2
	text := bytes.Repeat([]byte("0123456\n"), parts/8+8)
	for name, c := range map[string]struct {
		kept, dropped int64 // from where on, before and after the first answer
		last          bool  // the host has nothing from the second answer on
		from, to, end int64
	}{
		"all of it":         {0, 0, false, 0, parts + 16, parts + 16},
		"its oldest is not": {8, 8, false, 8, parts + 16, parts + 16},
		"dropped meanwhile": {0, compute.MaxConsole + 8, false, compute.MaxConsole + 8, parts + 16, parts + 16},
		"no more of it":     {0, 0, true, 0, compute.MaxConsole, parts},
	} {
		t.Run(name, func(t *testing.T) {
			end, kept, asked := int64(parts), c.kept, 0
			node := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/instances" {
					answer(w, http.StatusOK, map[string]any{"items": []client.Instance{{ID: ownID, Name: "web"}}})
					return
				}
				offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
				if err != nil {
					t.Error(err)
				}
				from := max(offset, kept)
				to := min(from+compute.MaxConsole, end)
				if asked++; asked > 1 && c.last {
					to = from
				}
				answer(w, http.StatusOK, client.Console{Offset: from, Data: text[from:to], End: end})
				end, kept = parts+16, c.dropped
			}
			out, errs, err := typed(t.Context(), t, node, newConsole, "web", "-o", "json")
			var got client.Console
			if failed := json.Unmarshal([]byte(out), &got); failed != nil || err != nil {
				t.Fatal(failed, err, errs)
			}
			if got.Offset != c.from || !bytes.Equal(got.Data, text[c.from:c.to]) || got.End != c.end {
				t.Errorf("%d bytes from %d on, the end at %d", len(got.Data), got.Offset, got.End)
			}
		})
	}
}

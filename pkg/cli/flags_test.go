// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/compute"
)

// TestFlagsThatCountForNothing are refused, before anything is asked for.
func TestFlagsThatCountForNothing(t *testing.T) {
	power := func(s *settings) *cobra.Command { return newPower(s, compute.OpStop) }
	enable := func(s *settings) *cobra.Command { return newHostAsk(s, "enable", "") }
	waits := map[string]func(*settings) *cobra.Command{
		"--flavor m1.small --name web": newBoot, "web": newDelete, "web -y": power, "h1": enable, "h2": newHostDrain,
		"h3": newHostEvacuate, "r --flavor m1.small --for 1h": newReserve,
	}
	type use struct {
		command func(*settings) *cobra.Command
		args    string
		field   string
	}
	uses := []use{
		{newList, "-w --placeholders", "watch"}, {newCapacity, "--by zone --sort-by now", "sort-by"},
		{newFlavorAdd, "f --timeout=-5s", "timeout"}, {newCapabilityAdd, "disk ssd --timeout=-5s", "timeout"},
		{newList, "--request-timeout=-1s", "request-timeout"},
		{newFlavorAdd, "f --no-wait --timeout=5s", "timeout"}, {newCapabilityAdd, "disk ssd --dry-run --timeout=5s", "timeout"},
		{newBoot, "--flavor m1.small --dry-run --wait --timeout=5s", "timeout"},
	}
	for args, command := range waits {
		uses = append(uses, use{command, args + " --timeout 5s", "timeout"},
			use{command, args + " --wait=false --timeout 0", "timeout"}, use{command, args + " --wait --timeout=-5s", "timeout"})
	}
	for _, u := range uses {
		node := func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("%s: it asks %s %s", u.args, r.Method, r.URL)
			panic(http.ErrAbortHandler)
		}
		_, _, err := typed(t.Context(), t, node, u.command, strings.Fields(u.args)...)
		var e *compute.Error
		if !errors.As(err, &e) || e.Kind != compute.KindInvalid || e.Field != u.field {
			t.Errorf("%s: %v", u.args, err)
		}
	}
}

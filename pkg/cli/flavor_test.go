// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// catalogNode is a node whose view of its catalog is what a test says, look by look.
type catalogNode struct {
	added int             // queues that the change makes
	views []client.Flavor // without a name: not shown yet
	looks int
	old   bool // it has not read of the value yet that the first view is without
}

func (n *catalogNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		answer(w, http.StatusOK, client.Change{Added: n.added, Total: 24})
		return
	case strings.HasPrefix(r.URL.Path, "/v1/capabilities"):
		axis := client.Capability{Axis: "disk", Values: []rest.CapabilityValue{{Value: "hdd"}}}
		if !n.old || n.looks > 0 {
			axis.Values = append(axis.Values, rest.CapabilityValue{Value: "ssd"})
		}
		if n.old {
			n.looks++
		}
		answer(w, http.StatusOK, axis)
		return
	}
	v := n.views[min(n.looks, len(n.views)-1)]
	n.looks++
	switch {
	case r.URL.Path == "/v1/flavors" && v.Name == "":
		answer(w, http.StatusOK, map[string]any{"items": []client.Flavor{}})
	case r.URL.Path == "/v1/flavors":
		answer(w, http.StatusOK, map[string]any{"items": []client.Flavor{v}})
	case v.Name == "":
		problem(w, http.StatusNotFound, compute.KindNotFound)
	default:
		answer(w, http.StatusOK, v)
	}
}

// withQueues is the flavor as a node shows it.
func withQueues(open, wanted int) (f client.Flavor) {
	f.Name, f.Capabilities = "m1.small", []compute.AxisName{"disk"}
	f.Queues.Open, f.Queues.Wanted = open, wanted
	return f
}

// TestAddWaitsForItsQueues: also where the flavor or the value was there before, and where a node does not show it yet.
func TestAddWaitsForItsQueues(t *testing.T) {
	flavor := []string{"m1.small", "--vcpus", "1", "--memory", "1GiB", "--disk", "1GiB"}
	value := []string{"disk", "ssd"}
	none, half, whole := client.Flavor{}, withQueues(12, 24), withQueues(24, 24)
	for name, c := range map[string]struct {
		command func(*settings) *cobra.Command
		node    catalogNode
		args    []string
		code    exitCode
		out     string
		told    string
	}{
		"a flavor": {
			newFlavorAdd, catalogNode{24, []client.Flavor{half, whole}, 0, false}, flavor, exitOK, "24/24", "24 of 24 q",
		},
		"a flavor again": {
			newFlavorAdd, catalogNode{0, []client.Flavor{half, half, whole}, 0, false}, flavor, exitOK, "24/24", "12 of 24 q",
		},
		"a flavor again, in vain": {
			newFlavorAdd, catalogNode{0, []client.Flavor{half}, 0, false}, append(flavor, "--timeout", "2s"),
			exitTimeout, "", "12 of 24 q",
		},
		"a flavor that is not shown yet": {
			newFlavorAdd, catalogNode{24, []client.Flavor{none, none, whole, none, whole}, 0, false}, flavor,
			exitOK, "24/24", "24 of 24 q",
		},
		"a flavor that is not shown yet, without a wait": {
			newFlavorAdd, catalogNode{24, []client.Flavor{none, half}, 0, false}, append(flavor, "--no-wait"),
			exitOK, "12/24", "makes 24",
		},
		"a value again": {
			newCapabilityAdd, catalogNode{0, []client.Flavor{half, half, whole}, 0, false}, value, exitOK, "ssd", "24 of 24 q",
		},
		"a value that is not shown yet": {
			newCapabilityAdd, catalogNode{12, []client.Flavor{withQueues(12, 12), whole}, 0, true}, value,
			exitOK, "ssd", "24 of 24 q",
		},
		"an axis of no flavor": {
			newCapabilityAdd, catalogNode{0, []client.Flavor{none}, 0, false}, value, exitOK, "ssd", "changes no queue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, told, err := typedInVirtualTime(t, c.node.ServeHTTP, c.command, c.args...)
			if codeOf(err) != c.code || !strings.Contains(out, c.out) || !strings.Contains(told, c.told) {
				t.Errorf("%v (%d), prints %q and %q", err, codeOf(err), out, told)
			}
		})
	}
}

// TestRemoveValuesAndNotTheAxis: where values are named, no request leaves them out, also at a node that does not know
// the parameter and refuses it.
func TestRemoveValuesAndNotTheAxis(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		older bool
		code  exitCode
		asked string
	}{
		"an axis":    {[]string{"disk"}, false, exitOK, "dry_run=true "},
		"a value":    {[]string{"disk", "ssd"}, false, exitOK, "dry_run=true&value=ssd value=ssd"},
		"only asked": {[]string{"disk", "ssd", "--dry-run"}, false, exitOK, "dry_run=true&value=ssd"},
		"values that are in use": {
			[]string{"disk", "ssd", "hdd", "--drain"}, false, exitOK,
			"drain=true&dry_run=true&value=ssd&value=hdd drain=true&value=ssd&value=hdd",
		},
		"an empty value":        {[]string{"disk", ""}, true, exitUsage, "dry_run=true&value="},
		"an older node":         {[]string{"disk", "ssd"}, true, exitUsage, "dry_run=true&value=ssd"},
		"drain without a value": {[]string{"disk", "--drain"}, false, exitUsage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			_, told, err := typed(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.RawQuery)
				if r.Method != http.MethodDelete || r.URL.Path != "/v1/capabilities/disk" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				if c.older && r.URL.Query().Has("value") {
					problem(w, http.StatusUnprocessableEntity, compute.KindInvalid)
					return
				}
				answer(w, http.StatusOK, client.Change{Removed: 1, Total: 2})
			}, newCapabilityRemove, c.args...)
			if got := strings.Join(asked, " "); codeOf(err) != c.code || got != c.asked {
				t.Errorf("%v (%d), asked %q; %s", err, codeOf(err), got, told)
			}
		})
	}
}

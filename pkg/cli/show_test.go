// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestShownReservation: it is shown what an instance is to a reservation: booted into it, or a placeholder of it.
func TestShownReservation(t *testing.T) {
	from, until := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC), time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		is   client.Instance
		want string
	}{
		"neither":        {client.Instance{Group: "web"}, "Group: web"},
		"booted into it": {client.Instance{Reservation: "nightly"}, "Reservation: nightly"},
		"which it has":   {client.Instance{Reservation: "nightly", In: "b"}, "Reservation: nightly, Room of: placeholder b"},
		"a placeholder": {
			client.Instance{Placeholder: &rest.InstancePlaceholder{Reservation: "nightly"}},
			"Placeholder: of reservation nightly, without a machine",
		},
		"one that is had": {
			client.Instance{Placeholder: &rest.InstancePlaceholder{
				Reservation: "nightly", From: from, Until: until, Taker: "c",
			}},
			"Placeholder: of reservation nightly, without a machine, from 2026-03-04T05:00:00Z, " +
				"until 2026-03-04T06:00:00Z; taken by c",
		},
	} {
		var got []string
		for _, d := range instanceDetails(c.is, from) {
			if d.value != "" {
				got = append(got, d.title+": "+d.value)
			}
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// TestGroupIsListed: a wide list has the group of each, and --group asks the node for its members.
func TestGroupIsListed(t *testing.T) {
	asked := ""
	node := func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		one := client.Instance{ID: ownID, Name: "web-1", State: "active", Group: "front"}
		answer(w, http.StatusOK, rest.Instances{Items: []client.Instance{one}})
	}
	out, _, err := typed(t.Context(), t, node, newList, "--group", "front", "-o", "wide")
	lines := strings.Split(out, "\n")
	if at := strings.Index(lines[0], " GROUP "); err != nil || at < 0 || !strings.HasPrefix(lines[1][at:], " front ") {
		t.Errorf("%v; %s", err, out)
	}
	if asked != "group=front&project=default" {
		t.Errorf("it asks %s", asked)
	}
}

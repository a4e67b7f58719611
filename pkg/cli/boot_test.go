// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// A key is as long as the API takes one; with --count there has to be room for
// what is put behind it.
func TestLongestKey(t *testing.T) {
	for _, c := range []struct {
		length, count int
		fits          bool
	}{{255, 1, true}, {256, 1, false}, {240, 2, true}, {241, 2, false}} {
		f := bootFlags{
			flavor:       "m1.small",
			name:         "web",
			onNoCapacity: "wait",
			count:        c.count,
			key:          strings.Repeat("k", c.length),
		}
		_, err := f.boot(newBoot(&settings{}))
		if (err == nil) != c.fits || err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%d of length %d: %v", c.count, c.length, err)
		}
	}
}

// TestRepeatedBootIsLikeTheFirst: a boot into a reservation that is repeated under its key or id has the flavor and the
// choices of the first time, also when the reservation is gone, or its name that of another one. Only what was never
// booted has those of the reservation.
func TestRepeatedBootIsLikeTheFirst(t *testing.T) {
	keyed := func(key string) string { return string(client.KeyedID("default", key)) }
	for name, c := range map[string]struct {
		args  string
		there string // the id of what was booted before; empty: nothing
		asks  int    // for the reservation
		want  string
	}{
		"a key":                  {"--key job-7", keyed("job-7"), 0, "m1.before disk=ssd"},
		"an id":                  {"--id " + ownID, ownID, 0, "m1.before disk=ssd"},
		"a choice of its own":    {"--key job-7 --with disk=hdd", keyed("job-7"), 0, "m1.before disk=hdd"},
		"one of several":         {"--key job --count 2", keyed("job-2"), 0, "m1.before disk=ssd"},
		"never booted":           {"--key job-0", keyed("job-0"), 1, "m1.now gpu=a100"},
		"nothing under the key":  {"--key job-7", "", 1, "m1.now gpu=a100"},
		"nothing under the keys": {"--key job --count 2", "", 1, "m1.now gpu=a100"},
		"no key":                 {"", "", 1, "m1.now gpu=a100"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex // several are booted at once
			var booted []string
			asks := 0
			before := client.Instance{
				ID: compute.InstanceID(c.there), Flavor: "m1.before", With: compute.Choices{"disk": "ssd"}, State: "deleted",
			}
			if name == "never booted" { // it was deleted first
				before.Flavor, before.With = "", nil
			}
			node := func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); {
				case r.Method == http.MethodPost:
					var b rest.Boot
					if err := json.NewDecoder(r.Body).Decode(&b); err != nil || b.Reservation != "nightly" {
						t.Errorf("%+v, %v", b, err)
					}
					booted = append(booted, kind(b.Flavor, b.With))
					answer(w, http.StatusAccepted, client.Instance{ID: ownID, State: "accepted"})
				case path == "reservations/nightly":
					asks++
					answer(w, http.StatusOK, client.Reservation{Flavor: "m1.now", With: compute.Choices{"gpu": "a100"}})
				case path == "instances":
					found := rest.Instances{Items: []client.Instance{}}
					if slices.Contains(r.URL.Query()["id"], c.there) && r.FormValue("all") == "true" {
						found.Items = append(found.Items, before)
					}
					answer(w, http.StatusOK, found)
				case c.there != "" && path == "instances/"+c.there:
					answer(w, http.StatusOK, before)
				default:
					problem(w, http.StatusNotFound, compute.KindNotFound)
				}
			}
			args := strings.Fields("--reservation nightly --name web " + c.args)
			if _, _, err := typed(t.Context(), t, node, newBoot, args...); err != nil {
				t.Error(err)
			}
			if got := slices.Compact(booted); asks != c.asks || fmt.Sprint(got) != "["+c.want+"]" {
				t.Errorf("it asks %d times for the reservation, and boots %s, want %s", asks, got, c.want)
			}
		})
	}
}

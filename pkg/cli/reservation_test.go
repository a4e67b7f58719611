// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestWaitHeldByAnother: where another request had the name first it asks again, and waits on if that is the same one.
func TestWaitHeldByAnother(t *testing.T) {
	const other = `{"name":"r","state":"held","placeholders":[{"id":"%s"}]}`
	const mine, theirs = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	for name, c := range map[string]struct {
		held   string // whose is shown
		status int    // of what is asked again
		asks   int
		kind   compute.Kind // of the error; 0: none
	}{
		"its own":      {mine, 0, 0, 0},
		"the same":     {theirs, http.StatusAccepted, 1, 0},
		"another kind": {theirs, http.StatusConflict, 1, compute.KindConflict},
	} {
		t.Run(name, func(t *testing.T) {
			asks := 0
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodPost {
					asks++
					if w.WriteHeader(c.status); c.status == http.StatusConflict {
						_, _ = w.Write([]byte(`{"status":409,"kind":"conflict","field":"name"}`))
						return
					}
				}
				_, _ = fmt.Fprintf(w, other, c.held)
			}))
			defer node.Close()
			of, err := client.New(client.Config{Address: node.URL, Project: "p"})
			if err != nil {
				t.Fatal(err)
			}
			defer of.Close()
			before, err := of.Reservation(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			before.State, before.Placeholders[0].ID = "accepted", mine
			v, err := waitHeld(t.Context(), of, client.ReservationWish{Name: "r"}, before)
			var e *compute.Error
			errors.As(err, &e)
			asExpected := err == nil && v.State == "held"
			if c.kind != 0 {
				asExpected = e != nil && e.Kind == c.kind
			}
			if !asExpected || asks != c.asks {
				t.Errorf("it ends with %+v, %v, after asking %d times", v, err, asks)
			}
		})
	}
}

// TestEndsSaid: what waits for room of a reservation that ends does not go on.
func TestEndsSaid(t *testing.T) {
	for want, v := range map[string]client.Reservation{
		"reservation r ends; 2 that were booted into it go on": {Name: "r", Taken: 2, Started: 2},
		"reservation r ends; 1 that were booted into it go on, 2 that wait for its room end with it": {
			Name: "r", Taken: 3, Started: 1,
		},
	} {
		if got := endsSaid(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

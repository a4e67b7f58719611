// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
			live := newLiveLine(io.Discard)
			v, err := waitHeld(t.Context(), of, live, time.Minute, client.ReservationWish{Name: "r"}, before)
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

// TestReserveWaits: a wait for room outlives a node that is away or slow, tells how far it is, and shows what there is
// however it ends.
func TestReserveWaits(t *testing.T) {
	const held = `{"name":"r","state":"%s","count":2,"held":%d}`
	slow := []string{"--request-timeout", "10s"}
	for name, c := range map[string]struct {
		looks []string // what the looks are answered, the last for ever
		args  []string
		code  exitCode
		says  string
	}{
		"it is held":            {[]string{"waiting 1", "held 2"}, nil, exitOK, ""},
		"a node that goes away": {[]string{"cut", "waiting 1", "cut", "held 2"}, nil, exitOK, ""},
		"a node that is slow":   {[]string{"slow", "waiting 1", "held 2"}, slow, exitOK, ""},
		"a node that is behind": {[]string{"none", "waiting 1", "held 2"}, nil, exitOK, ""},
		"the time is up": {
			[]string{"waiting 1"}, []string{"--timeout", "10s"}, exitTimeout, "room for 1 of 2; berth reservation show r",
		},
		"some of it has ended": {
			[]string{"waiting 1", "partly 1"}, []string{"--timeout", "1m"}, exitNoCapacity,
			"1 of its 2 placeholders have ended; what is left of it",
		},
		"an older node, to which a part is all": {
			[]string{"held 1"}, []string{"--timeout", "10s"}, exitTimeout, "room for 1 of 2",
		},
		"it is refused":            {[]string{"waiting 1", "ended 0"}, nil, exitNoCapacity, "it has ended"},
		"the wait is called off":   {[]string{"waiting 1", "stop"}, nil, exitError, "the wait was called off"},
		"it is called off at once": {[]string{"stop"}, nil, exitError, "the wait was called off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // three of them wait until their time is up
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			look := 0
			node := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodPost {
					_, _ = fmt.Fprintf(w, held, "waiting", 0)
					return
				}
				state, n := "", 0
				_, _ = fmt.Sscan(c.looks[min(look, len(c.looks)-1)], &state, &n)
				look++
				switch state {
				case "cut":
					panic(http.ErrAbortHandler)
				case "slow":
					<-r.Context().Done()
				case "stop":
					stop()
					<-r.Context().Done()
				case "partly":
					_, _ = io.WriteString(w, `{"name":"r","state":"waiting","count":2,"held":1,"reason":{"code":"ReservationEnded",`+
						`"message":"1 of its 2 placeholders have ended"}}`)
				case "none":
					problem(w, http.StatusNotFound, compute.KindNotFound)
				default:
					_, _ = fmt.Fprintf(w, held, state, n)
				}
			}
			args := append([]string{"r", "--flavor", "m1.small", "--count", "2", "--for", "1h", "--wait"}, c.args...)
			out, told, err := typed(ctx, t, node, newReserve, args...)
			if codeOf(err) != c.code || c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it ends with %v (%d)", err, codeOf(err))
			}
			if !strings.Contains(out, "RESERVATION") {
				t.Errorf("it prints %q", out)
			}
			if len(c.looks) > 1 && !strings.Contains(told, "hosts hold room for 1 of 2\n") {
				t.Errorf("it tells %q", told)
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

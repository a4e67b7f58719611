// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// script answers one request after the other as it says; the last answer stays.
type script struct {
	answers []scripted
	asked   []time.Duration // since the beginning
	markers []string        // of the pages asked for
	began   time.Time
}

// scripted is one answer; status 0 breaks the connection off.
type scripted struct {
	status int
	after  string // Retry-After; of a page, the marker of the next
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, time.Since(s.began))
	s.markers = append(s.markers, r.URL.Query().Get("marker"))
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	switch {
	case a.status == 0:
		panic(http.ErrAbortHandler)
	case a.after != "" && a.status >= 300:
		w.Header().Set("Retry-After", a.after)
	}
	w.WriteHeader(a.status)
	if a.status >= 300 {
		kind, ok := map[int]compute.Kind{404: compute.KindNotFound, 504: compute.KindTimeout}[a.status]
		if !ok {
			kind = compute.KindUnavailable
		}
		p := rest.NewProblem(&compute.Error{Kind: kind, Message: "too busy", Remedy: "try again"})
		p.Status = a.status
		_ = json.NewEncoder(w).Encode(p)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"next": a.after, "id": "i"})
}

// play has a client ask a server that answers so, in virtual time.
func play(
	t *testing.T, patience time.Duration, ask func(context.Context, *Client) error, answers ...scripted,
) (s *script, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network embedded.Network
		listener, lerr := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if lerr != nil {
			t.Fatal(lerr)
		}
		s = &script{answers: answers, began: time.Now()}
		server := &http.Server{Handler: s}
		done := make(chan error, 1)
		go func() { done <- server.Serve(listener) }()
		c, cerr := New(Config{Address: listener.Addr().String(), Patience: patience, Dial: network.Dial})
		if cerr != nil {
			t.Fatal(cerr)
		}
		err = ask(t.Context(), c)
		c.Close()
		_ = server.Close()
		<-done
	})
	return s, err
}

func hosts(ctx context.Context, c *Client) error { _, err := c.Hosts(ctx); return err }

func TestComesAgainWhenAsked(t *testing.T) {
	ok := scripted{status: 200}
	for name, c := range map[string]struct {
		ask      func(context.Context, *Client) error
		answers  []scripted
		patience time.Duration
		tries    int
		fails    bool
	}{
		"busy":                 {hosts, []scripted{{429, "1"}, {503, "2"}, ok}, 0, 3, false},
		"nobody knows":         {hosts, []scripted{{504, "1"}, ok}, 0, 2, false},
		"broken off":           {hosts, []scripted{{}, {}, ok}, 0, 3, false},
		"does not say when":    {hosts, []scripted{{503, ""}}, 0, 1, true},
		"says nonsense":        {hosts, []scripted{{503, "soon"}}, 0, 1, true},
		"too late":             {hosts, []scripted{{503, "11"}}, 0, 1, true},
		"not that it may help": {hosts, []scripted{{404, "1"}}, 0, 1, true},
		"no patience":          {hosts, []scripted{{503, "0"}}, -1, 1, true},
		"a boot with an id": {
			boots("11111111-1111-4111-8111-111111111111"), []scripted{{503, "1"}, {}, ok}, 0, 3, false,
		},
		"a boot without":      {boots(""), []scripted{{503, "1"}}, 0, 1, true},
		"a boot without, cut": {boots(""), []scripted{{}}, 0, 1, true},
		"a delete":            {deletes, []scripted{{429, "1"}, ok}, 0, 2, false},
		"a quota":             {limits, []scripted{{429, "1"}, ok}, 0, 2, false},
		"a change of offers":  {offers, []scripted{{503, "1"}}, 0, 1, true},
		"a flavor's removal":  {removesFlavor, []scripted{{503, "1"}}, 0, 1, true},
		"the same, cut":       {removesFlavor, []scripted{{}}, 0, 1, true},
		"an axis's removal":   {removesCapability, []scripted{{503, "1"}}, 0, 1, true},
		"the same of it, cut": {removesCapability, []scripted{{}}, 0, 1, true},
		"more patience":       {hosts, []scripted{{503, "11"}, ok}, time.Minute, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := play(t, c.patience, c.ask, c.answers...)
			if len(s.asked) != c.tries || (err != nil) != c.fails {
				t.Errorf("asked %d times, want %d: %v", len(s.asked), c.tries, err)
			}
		})
	}
}

// Where one try may have done something, the answer is that nobody knows, unless the last try tells.
func TestWhatMayHaveBeenDone(t *testing.T) {
	one := boots("11111111-1111-4111-8111-111111111111")
	for name, c := range map[string]struct {
		ask     func(context.Context, *Client) error
		answers []scripted
		want    compute.Kind
	}{
		"cut":                    {boots(""), []scripted{{}}, compute.KindTimeout},
		"cut, then busy":         {one, []scripted{{}, {503, ""}}, compute.KindTimeout},
		"not known, then busy":   {one, []scripted{{504, "1"}, {503, ""}}, compute.KindTimeout},
		"cut, then refused":      {one, []scripted{{}, {404, ""}}, compute.KindNotFound},
		"busy":                   {one, []scripted{{503, ""}}, compute.KindUnavailable},
		"what only reads, cut":   {hosts, []scripted{{}}, compute.KindUnavailable},
		"a delete, cut for ever": {deletes, []scripted{{}}, compute.KindTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := play(t, 0, c.ask, c.answers...); compute.KindOf(err) != c.want {
				t.Errorf("%v is %s, want %s", err, compute.KindOf(err), c.want)
			}
		})
	}
}

func boots(id compute.InstanceID) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		_, err := c.Boot(ctx, id, compute.Boot{Flavor: "f"})
		return err
	}
}

func deletes(ctx context.Context, c *Client) error { _, err := c.Delete(ctx, "i"); return err }

func limits(ctx context.Context, c *Client) error {
	_, err := c.SetQuota(ctx, compute.Quota{Project: "p"})
	return err
}

func offers(ctx context.Context, c *Client) error {
	_, err := c.AddFlavor(ctx, compute.Flavor{Name: "f"}, false)
	return err
}

func removesFlavor(ctx context.Context, c *Client) error {
	_, err := c.RemoveFlavor(ctx, "f", false)
	return err
}

func removesCapability(ctx context.Context, c *Client) error {
	_, err := c.RemoveCapability(ctx, "a", false)
	return err
}

// TestAPageInTheMiddle is asked for again where the walk stands, not from the
// beginning.
func TestAPageInTheMiddle(t *testing.T) {
	s, err := play(t, 0, hosts, scripted{200, "h"}, scripted{503, "1"}, scripted{}, scripted{200, "i"}, scripted{
		status: 200,
	})
	if want := []string{"", "h", "h", "h", "i"}; err != nil || !slices.Equal(s.markers, want) {
		t.Errorf("asked for %q, want %q: %v", s.markers, want, err)
	}
}

// TestPausesAreAsLongAsAsked and not all the same, and they end.
func TestPausesAreAsLongAsAsked(t *testing.T) {
	firsts := map[time.Duration]bool{}
	for range 5 {
		s, err := play(t, 0, hosts, scripted{503, "2"})
		if compute.KindOf(err) != compute.KindUnavailable || !strings.Contains(err.Error(), "too busy") {
			t.Error(err)
		}
		for i := 1; i < len(s.asked); i++ {
			if pause := s.asked[i] - s.asked[i-1]; pause < 2*time.Second {
				t.Errorf("came again after %s", pause)
			}
		}
		if last := s.asked[len(s.asked)-1]; last > defaultRetryFor || len(s.asked) < 3 {
			t.Errorf("asked at %v", s.asked)
		}
		firsts[s.asked[1]] = true
	}
	if len(firsts) < 2 {
		t.Errorf("everybody comes back at once: %v", firsts)
	}
}

// TestNobodyThereIsNotRepeated: a user who typed a wrong address hears so at once.
func TestNobodyThereIsNotRepeated(t *testing.T) {
	dials := 0
	c, err := New(Config{Address: "http://berth.test", Dial: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Hosts(t.Context()); err == nil || dials != 1 {
		t.Errorf("%d dials: %v", dials, err)
	}
}

// TestCalledOffWhilePausing ends the pause.
func TestCalledOffWhilePausing(t *testing.T) {
	s, err := play(t, time.Hour, func(ctx context.Context, c *Client) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return hosts(ctx, c)
	}, scripted{503, "600"})
	if len(s.asked) != 1 || compute.KindOf(err) != compute.KindUnavailable {
		t.Errorf("asked %d times: %v", len(s.asked), err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// present tells how an instance is, at a version.
func present(n compute.Version) client.Told {
	return client.Told{Kind: rest.EventPresent, Event: rest.Event{Project: "web", Instance: "i", Version: n}}
}

// presented tells that all was told that there is.
func presented(id string) client.Told {
	return client.Told{Kind: rest.EventPresented, ID: id, Gap: rest.EventsGap{ID: id}}
}

// TestForwardPresentAgainAndAgain: what a present began with is let go when it begins anew, while the receiver is away.
func TestForwardPresentAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times, each = 10, 10_000
		r := &receiver{t: t, answers: func(int, []Event) (int, http.Header) { return 503, nil }}
		f := &forwarder{
			Options: Options{Secret: secret, HTTP: &http.Client{Transport: r}, Say: func(string, ...any) {}},
			queue:   newQueue(),
		}
		f.to = newEndpoint(f.Options)
		most := 0
		l := func(ctx context.Context, ask client.Follow) iter.Seq2[client.Told, error] {
			return func(yield func(client.Told, error) bool) {
				for range times {
					for n := range each {
						if !yield(present(compute.Version(n)), nil) {
							return
						}
					}
					f.queue.mu.Lock()
					most = max(most, len(f.queue.all))
					f.queue.mu.Unlock()
					ask.Lost(errors.New("broken"))
				}
				<-ctx.Done()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- f.post(ctx) }()
		if _, err := f.follow(ctx, l, ""); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || most > 2*each {
			t.Errorf("%d waited for the receiver, %v", most, err)
		}
	})
}

// TestForwardBrokenPresent: behind a gap the present is asked for again where a node that still knows the position goes
// on from there instead.
func TestForwardBrokenPresent(t *testing.T) {
	gap := client.Told{Kind: rest.EventGap, Gap: rest.EventsGap{ID: "0:3@log", Why: "forgotten"}}
	for name, began := range map[string][]client.Told{
		"within": {gap, present(3)}, "before it begins": {gap},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "position")
				if err := (Position{File: file}).Save("0:1@log", time.Now()); err != nil {
					t.Fatal(err)
				}
				r := &receiver{t: t, answers: well}
				l := &log{told: func(f client.Follow) []client.Told {
					if f.After == "" {
						return []client.Told{present(4), presented("0:4@log"), change(5)}
					}
					return append(slices.Clone(began), change(4))
				}}
				if err := run(t, file, l, r); err != nil {
					t.Fatal(err)
				}
				got := r.texts()
				end := []string{"begins begins", "present web/i/4", "ends ends", "changed web/i/5"}
				if i := slices.Index(got, "changed web/i/4"); i >= 0 || len(got) < 5 || !slices.Equal(got[len(got)-4:], end) {
					t.Errorf("it took %q", got)
				}
				if at := positionIn(t, file); at != "0:5@log" {
					t.Errorf("it is at %q", at)
				}
			})
		})
	}
}

// TestForwardTwoPresents: a present that was told to its end is posted, though another comes before the receiver has
// it: the changes behind it have positions.
func TestForwardTwoPresents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{t: t, answers: func(n int, _ []Event) (int, http.Header) {
			if n == 1 {
				return 503, nil
			}
			return 200, nil
		}}
		var all []client.Told
		for n := range compute.Version(mostEvents) { // what is posted at once is one
			all = append(all, present(n+1))
		}
		gap := client.Told{Kind: rest.EventGap, Gap: rest.EventsGap{ID: "0:203@log", Why: "forgotten"}}
		all = append(all, presented("0:201@log"), change(202), gap, present(204), presented("0:205@log"))
		if err := run(t, filepath.Join(t.TempDir(), "position"), &log{told: func(client.Follow) []client.Told {
			return all
		}}, r); err != nil {
			t.Fatal(err)
		}
		want := []string{"present web/i/100", "ends ends", "changed web/i/202", "gap gap/0:203@log", "begins begins",
			"present web/i/204", "ends ends"}
		if got := r.texts(); len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
			t.Errorf("it took %q, want %q at its end", got, want)
		}
	})
}

// TestForwardThroughAnIngress: what a proxy answers while it has no API node to ask is no refusal.
func TestForwardThroughAnIngress(t *testing.T) {
	says := []string{"1", "", "", "2"}
	var behind []string
	ingress := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := says[0]
		says = says[1:]
		if n == "" {
			http.Error(w, "default backend", http.StatusNotFound)
			return
		}
		behind = append(behind, req.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "retry: 1\nid: 0:%s@log\nevent: change\n", n) // the test sees what is missing
		_, _ = fmt.Fprintf(w, "data: {\"project\":\"web\",\"instance\":\"i\",\"version\":%s}\n\n", n)
		if len(says) == 0 {
			_, _ = io.WriteString(w, "event: end\ndata: {\"why\":\"caught-up\"}\n\n")
		}
	}))
	t.Cleanup(ingress.Close)
	api, err := client.New(client.Config{Address: ingress.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	r := &receiver{t: t, answers: well, late: time.Minute}
	err = Run(t.Context(), api.Events, Options{
		To: "https://receiver", Secret: secret, HTTP: &http.Client{Transport: r},
		Position: Position{File: filepath.Join(t.TempDir(), "position")}, Say: t.Logf,
	})
	if got := r.texts(); err != nil || !slices.Equal(got, []string{"changed web/i/1", "changed web/i/2"}) {
		t.Errorf("it took %q, %v", got, err)
	}
	if !slices.Equal(behind, []string{"", "0:1@log"}) {
		t.Errorf("it asked for what is behind %q", behind)
	}
}

// TestForwardForeignAnswer: such an answer ends the forwarder only where it is the first, and no earlier forwarder has
// left a position.
func TestForwardForeignAnswer(t *testing.T) {
	foreign := rest.Foreign(http.StatusNotFound)
	for name, c := range map[string]struct {
		position string // that the file has
		answers  []any  // a change or an error
		kind     compute.Kind
		took     []string
	}{
		"the first": {"", []any{foreign, change(1)}, compute.KindNotFound, nil},
		"the first of a forwarder that is started again": {
			"0:1@log", []any{foreign, rest.Foreign(http.StatusBadRequest), change(2)}, 0, []string{"changed web/i/2"},
		},
		"a later one": {
			"", []any{change(1), errors.New("odd"), foreign, change(2)}, 0, []string{"changed web/i/1", "changed web/i/2"},
		},
		"a refusal": {
			"", []any{change(1), errors.New("odd"), compute.NotFound("host", "h", ""), change(2)}, compute.KindNotFound,
			[]string{"changed web/i/1"},
		},
		"a refusal of a forwarder that is started again": {
			"0:1@log", []any{compute.NotFound("host", "h", ""), change(2)}, compute.KindNotFound, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := func(context.Context, client.Follow) iter.Seq2[client.Told, error] {
					return func(yield func(client.Told, error) bool) {
						for len(c.answers) > 0 {
							now := c.answers[0]
							c.answers = c.answers[1:]
							if err, failed := now.(error); failed {
								yield(client.Told{}, err)
								return
							}
							yield(now.(client.Told), nil)
						}
					}
				}
				position := Position{File: filepath.Join(t.TempDir(), "position")}
				if c.position != "" {
					if err := position.Save(c.position, time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				r := &receiver{t: t, answers: well}
				err := Run(t.Context(), source, Options{
					To: "https://receiver", Secret: secret, HTTP: &http.Client{Transport: r}, Position: position, Say: t.Logf,
				})
				got := r.texts()
				if compute.KindOf(err) != c.kind || (err == nil) != (c.kind == 0) || !slices.Equal(got, c.took) {
					t.Errorf("it took %q, %v", got, err)
				}
			})
		})
	}
}

// slow is a receiver that takes its time for each batch.
type slow struct{ *receiver }

func (s slow) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.receiver.RoundTrip(req)
	time.Sleep(20 * time.Second) // of the bubble
	return resp, err
}

// TestForwardEnds: what is on its way when the forwarder is stopped is waited for, and no more is posted.
func TestForwardEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "position")
		r := &receiver{t: t, answers: well}
		l := &log{told: func(client.Follow) (all []client.Told) {
			for n := range 1000 {
				all = append(all, change(n+1))
			}
			return all
		}}
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{
			Secret: secret, HTTP: &http.Client{Transport: slow{r}}, Position: Position{File: file}, Say: t.Logf,
		}
		done := make(chan error, 1)
		go func() { done <- Run(ctx, l.events, o) }()
		time.Sleep(10 * time.Second) // of the bubble: into the first post
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > patience || r.calls != 1 {
			t.Errorf("it ended after %s and %d posts", took, r.calls)
		}
		n := len(r.took)
		if last := fmt.Sprintf("web/i/%d", n); r.took[n-1].ID != last || positionIn(t, file) != change(n).ID {
			t.Errorf("it took %d, up to %s, and is at %q", n, r.took[n-1].ID, positionIn(t, file))
		}
	})
}

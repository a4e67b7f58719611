// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

var secret = []byte("a secret of twenty-four bytes or more")

// receiver answers what it is told to, and keeps what it took.
type receiver struct {
	t       *testing.T
	answers func(n int, batch []Event) (status int, header http.Header)
	late    time.Duration // what comes may have been signed so long ago; in a bubble it is signed in the same moment

	mu    sync.Mutex
	calls int
	took  []Event
	ids   []string // of all requests
	run   string   // the present that was begun
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	id, at := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); req.Header.Get("webhook-signature") != want {
		r.t.Errorf("signed with %q, want %q", req.Header.Get("webhook-signature"), want)
	}
	signed, err := strconv.ParseInt(at, 10, 64)
	now := time.Now()
	if err != nil || signed > now.Unix() || signed < now.Add(-r.late).Unix() ||
		req.Header.Get("Content-Type") != ContentType {
		r.t.Errorf("at %s, %s", at, req.Header.Get("Content-Type"))
	}
	var batch []Event
	if err := json.Unmarshal(body, &batch); err != nil || len(batch) == 0 || len(batch) > mostEvents {
		r.t.Errorf("a batch of %d: %v", len(batch), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.ids = append(r.ids, id)
	status, header := r.answers(r.calls, batch)
	if status == 0 {
		return nil, errors.New("no route to host")
	}
	if status/100 == 2 {
		r.took = append(r.took, batch...)
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: header, Body: io.NopCloser(strings.NewReader("because")), Request: req,
	}, nil
}

// texts are what it took, as "changed id", without the names of presents.
func (r *receiver) texts() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.took {
		kind := e.Type[strings.LastIndex(e.Type, ".")+1:]
		if run, rest, is := strings.Cut(e.ID, "/"); is && strings.HasPrefix(run, "present-") {
			e.ID = rest
			if kind == "begins" {
				r.run = run
			} else if run != r.run {
				r.t.Errorf("%s is of %s, which is not what was begun", e.ID, run)
			}
		}
		all = append(all, kind+" "+e.ID)
	}
	return all
}

func well(int, []Event) (int, http.Header) { return 200, nil }

// change is one at a place in the log.
func change(n int) client.Told {
	return client.Told{Kind: rest.EventChange, ID: fmt.Sprintf("0:%d@log", n), Event: rest.Event{
		Project: "web", Instance: "i", Version: compute.Version(n), State: "active",
	}}
}

// log is a source of so many changes, as a node with its log has it. asked are the questions it was asked.
type log struct {
	told  func(f client.Follow) []client.Told
	asked []client.Follow
}

func (l *log) events(ctx context.Context, f client.Follow) iter.Seq2[client.Told, error] {
	l.asked = append(l.asked, f)
	return func(yield func(client.Told, error) bool) {
		for _, t := range l.told(f) {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// run forwards until the source has ended, in a bubble.
func run(t *testing.T, file string, l *log, r *receiver) error {
	t.Helper()
	return Run(t.Context(), l.events, Options{
		To: "https://receiver", Secret: secret, HTTP: &http.Client{Transport: r}, Source: "/test", Position: Position{File: file},
		Say: t.Logf,
	})
}

func positionIn(t *testing.T, file string) string {
	t.Helper()
	at, err := Position{File: file}.Load()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestForward: how all is comes first, then each change in its order, whatever the receiver answers meanwhile; and the
// next forwarder goes on behind what the receiver took.
func TestForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "position")
		r := &receiver{t: t, answers: func(n int, _ []Event) (int, http.Header) {
			switch n {
			case 1:
				return 0, nil
			case 2:
				return 503, http.Header{"Retry-After": {"60"}}
			case 3:
				return 302, nil
			}
			return 204, nil
		}}
		l := &log{told: func(client.Follow) []client.Told {
			return []client.Told{
				{
					Kind:  rest.EventPresent,
					Event: rest.Event{Project: "web", Instance: "i", Version: 7, State: "active"},
				},
				{Kind: rest.EventPresented, Gap: rest.EventsGap{ID: "0:8@log"}}, change(9), change(10),
				{Kind: rest.EventRemoved, ID: "0:11@log", Event: change(10).Event}, {Kind: "of a later version"},
			}
		}}
		began := time.Now()
		if err := run(t, file, l, r); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"begins begins", "present web/i/7", "ends ends", "changed web/i/9", "changed web/i/10", "removed web/i/10/removed",
		}
		if got := r.texts(); !slices.Equal(got, want) {
			t.Errorf("it took %q, want %q", got, want)
		}
		if e := r.took[3]; e.Source != "/test" || e.SpecVersion != "1.0" || e.Subject != "i" {
			t.Errorf("%+v", e)
		}
		if r.ids[0] != r.ids[1] || r.ids[0] != r.ids[2] {
			t.Errorf("what is posted again has other ids: %q", r.ids)
		}
		if took := time.Since(began); took < time.Minute {
			t.Errorf("the receiver that asked for a minute was left alone for %s", took)
		}
		if a := l.asked[0]; !a.Present || a.After != "" || positionIn(t, file) != "0:11@log" {
			t.Errorf("asked %+v, and is at %q", a, positionIn(t, file))
		}

		next := &log{told: func(f client.Follow) []client.Told {
			f.Reached("0:20@log") // nothing passed the filters
			return nil
		}}
		if err := run(t, file, next, r); err != nil {
			t.Fatal(err)
		}
		if a := next.asked[0]; !a.Present || a.After != "0:11@log" || positionIn(t, file) != "0:20@log" {
			t.Errorf("asked %+v, and is at %q", a, positionIn(t, file))
		}
	})
}

// TestForwardStopped: what the receiver did not take is told again by the next one.
func TestForwardStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "position")
		r := &receiver{t: t, answers: func(n int, batch []Event) (int, http.Header) {
			if slices.ContainsFunc(batch, func(e Event) bool { return e.ID == "web/i/150" }) {
				return 500, nil
			}
			return 200, nil
		}}
		l := &log{told: func(f client.Follow) (all []client.Told) {
			from := 1
			if f.After != "" {
				_, _ = fmt.Sscanf(f.After, "0:%d@", &from)
				from++
			}
			for n := from; n <= 250; n++ {
				all = append(all, change(n))
			}
			return all
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- Run(ctx, l.events, Options{
				Secret: secret, HTTP: &http.Client{Transport: r}, Position: Position{File: file}, Say: t.Logf,
			})
		}()
		time.Sleep(time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.answers = well
		if err := run(t, file, l, r); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.texts() {
			if want := fmt.Sprintf("changed web/i/%d", i+1); got != want {
				t.Fatalf("place %d: %q, want %q", i, got, want)
			}
		}
		if len(r.took) != 250 {
			t.Errorf("it took %d", len(r.took))
		}
	})
}

// TestForwardGap: after a gap the present is told, also over a lost connection, and only behind that it goes on another
// time.
func TestForwardGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "position")
		if err := (Position{File: file}).Save("0:3@log", time.Now()); err != nil {
			t.Fatal(err)
		}
		still := func(when string) {
			synctest.Wait() // what was told is posted
			if at := positionIn(t, file); at != "0:3@log" {
				t.Errorf("%s it is at %q", when, at)
			}
		}
		r := &receiver{t: t, answers: well}
		l := func(_ context.Context, f client.Follow) iter.Seq2[client.Told, error] {
			return func(yield func(client.Told, error) bool) {
				if f.After == "" {
					t.Error("asked without a position")
				}
				gap := rest.EventsGap{ID: "0:90@log", Why: "forgotten"}
				_ = yield(client.Told{Kind: rest.EventGap, Gap: gap}, nil) && yield(present(90), nil)
				still("behind the gap")
				f.Lost(errors.New("broken"))
				f.Reached("0:94@log") // it is behind nothing that was told
				still("in the present")
				_ = yield(present(95), nil) && yield(presented("0:95@log"), nil) && yield(change(96), nil)
				f.Lost(errors.New("broken"))
				_ = yield(change(97), nil)
			}
		}
		err := Run(t.Context(), l, Options{
			To: "https://receiver", Secret: secret, HTTP: &http.Client{Transport: r}, Position: Position{File: file},
			Say: t.Logf,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"gap gap/0:90@log", "begins begins", "present web/i/90", "begins begins", "present web/i/95", "ends ends",
			"changed web/i/96", "changed web/i/97",
		}
		if got := r.texts(); !slices.Equal(got, want) {
			t.Errorf("it took %q, want %q", got, want)
		}
		if at := positionIn(t, file); at != "0:97@log" {
			t.Errorf("it is at %q", at)
		}
	})
}

// TestForwardReadsThePresent: to its end, however long a receiver takes; of changes it reads some ahead.
func TestForwardReadsThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{t: t, answers: func(int, []Event) (int, http.Header) { return 503, nil }}
		read := 0
		l := func(_ context.Context, f client.Follow) iter.Seq2[client.Told, error] {
			return func(yield func(client.Told, error) bool) {
				for range 50_000 {
					if read++; !yield(client.Told{Kind: rest.EventPresent}, nil) {
						return
					}
				}
				if !yield(client.Told{Kind: rest.EventPresented, Gap: rest.EventsGap{ID: "0:1@log"}}, nil) {
					return
				}
				for n := range 50_000 {
					if read++; !yield(change(n+1), nil) {
						return
					}
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := Run(ctx, l, Options{
			To: "https://receiver", Secret: secret, HTTP: &http.Client{Transport: r},
			Position: Position{File: filepath.Join(t.TempDir(), "position")}, Say: func(string, ...any) {},
		})
		if err != nil || read < 50_000 || read > 50_000+mostWaiting {
			t.Errorf("it read %d, %v", read, err)
		}
	})
}

// TestForwardRefused: a batch that is too large goes in parts; a receiver that is gone ends it.
func TestForwardRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "position")
		l := &log{told: func(client.Follow) (all []client.Told) {
			for n := range 64 {
				all = append(all, change(n+1))
			}
			return all
		}}
		r := &receiver{t: t, answers: func(_ int, batch []Event) (int, http.Header) {
			if len(batch) > 5 {
				return 413, nil
			}
			return 200, nil
		}}
		if err := run(t, file, l, r); err != nil || len(r.took) != 64 ||
			!slices.IsSortedFunc(r.took, func(a, b Event) int {
				return strings.Compare(fmt.Sprintf("%10s", a.ID), fmt.Sprintf("%10s", b.ID))
			}) {
			t.Errorf("%d came, %v: %q", len(r.took), err, r.texts())
		}
		gone := &receiver{t: t, answers: func(int, []Event) (int, http.Header) { return 410, nil }}
		if err := run(t, file, l, gone); compute.KindOf(err) != compute.KindConflict || len(gone.took) != 0 {
			t.Errorf("a receiver that is gone: %v", err)
		}
		failing := func(context.Context, client.Follow) iter.Seq2[client.Told, error] {
			return func(yield func(client.Told, error) bool) {
				yield(client.Told{}, compute.NotFound("token", "", "sign in"))
			}
		}
		down := 3
		restarting := func(_ context.Context, f client.Follow) iter.Seq2[client.Told, error] {
			return func(yield func(client.Told, error) bool) {
				if down--; down >= 0 {
					yield(client.Told{}, compute.Unavailable("follow", errors.New("no route")))
				} else if f.After != "0:64@log" {
					t.Errorf("asked for what is behind %q", f.After)
				}
			}
		}
		err := Run(t.Context(), restarting, Options{
			Position: Position{File: file}, HTTP: &http.Client{Transport: r}, Say: t.Logf,
		})
		if err != nil || down >= 0 {
			t.Errorf("a source that restarts: %v, %d", err, down)
		}
		err = Run(
			t.Context(),
			failing,
			Options{Position: Position{File: file}, HTTP: &http.Client{Transport: r}, Say: t.Logf},
		)
		if compute.KindOf(err) != compute.KindNotFound {
			t.Errorf("a source that refuses: %v", err)
		}
	})
}

func TestPositionFile(t *testing.T) {
	dir := t.TempDir()
	p := Position{File: filepath.Join(dir, "position")}
	if at, err := p.Load(); at != "" || err != nil {
		t.Errorf("none: %q %v", at, err)
	}
	for _, text := range []string{"", "{}", "garbage", `{"position": 3}`} {
		if err := os.WriteFile(p.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Load(); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := p.Save("0:1@log", time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := (Position{File: p.File, Of: "another"}).Load(); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("of another: %v", err)
	}
	if Of("a", "p", client.Follow{}) == Of("a", "p", client.Follow{Host: "h"}) || Of("a", "p", client.Follow{}) == Of("a", "q", client.Follow{}) {
		t.Error("they are not told apart")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left are %v, %v", files, err)
	}
	if err := (Position{File: filepath.Join(dir, "none", "position")}).Save("0:1@log", time.Now()); compute.KindOf(
		err,
	) != compute.KindUnavailable {
		t.Errorf("no folder: %v", err)
	}
}

// TestPositionIsHeld: a second forwarder with the same file posts nothing, by whatever path it names the file.
func TestPositionIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "position")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		o := Options{Position: Position{File: file}, HTTP: &http.Client{Transport: &receiver{t: t, answers: well}}, Say: t.Logf}
		quiet := func(ctx context.Context, _ client.Follow) iter.Seq2[client.Told, error] {
			return func(func(client.Told, error) bool) { <-ctx.Done() }
		}
		go func() { ended <- Run(ctx, quiet, o) }()
		synctest.Wait()
		again, r := &log{told: func(client.Follow) []client.Told { return []client.Told{change(1)} }}, &receiver{t: t, answers: well}
		for _, same := range []string{file, dir + "/../" + filepath.Base(dir) + "/position"} {
			err := run(t, same, again, r)
			if compute.KindOf(err) != compute.KindConflict || !strings.Contains(err.Error(), "another forwarder has it") {
				t.Errorf("%v", err)
			}
		}
		if err := run(t, filepath.Join(dir, "other"), again, r); err != nil {
			t.Errorf("with a file of its own: %v", err)
		}
		if len(again.asked) != 1 {
			t.Errorf("it asked %d times", len(again.asked))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := run(t, file, again, r); err != nil {
			t.Errorf("once the first has ended: %v", err)
		}
	})
}

// TestForwardToNoFolder: nothing is posted that would be posted again and again, since no position can be kept.
func TestForwardToNoFolder(t *testing.T) {
	r := &receiver{t: t, answers: well}
	l := &log{told: func(client.Follow) []client.Told { return []client.Told{change(1)} }}
	err := run(t, filepath.Join(t.TempDir(), "none", "position"), l, r)
	if compute.KindOf(err) != compute.KindUnavailable || r.calls > 0 || len(l.asked) > 0 {
		t.Errorf("%d posts, %v", r.calls, err)
	}
}

func TestSecret(t *testing.T) {
	coded := "whsec_" + base64.StdEncoding.EncodeToString(secret)
	for text, want := range map[string][]byte{string(secret) + "\n": secret, coded + "\n": secret, strings.Repeat("x", 24): bytes.Repeat([]byte("x"), 24)} {
		if got, err := ParseSecret("f", []byte(text)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", strings.Repeat("x", 23), "whsec_", "whsec_%%%", "whsec_YWJj"} {
		if _, err := ParseSecret("f", []byte(text)); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzForward: whatever is given as a secret is one, or refused.
func FuzzForward(f *testing.F) {
	f.Add([]byte("whsec_YWJj"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := ParseSecret("f", text); err == nil && len(got) < leastSecret ||
			err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %q %v", text, got, err)
		}
	})
}

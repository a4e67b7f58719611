// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/pipetest"
	"github.com/berth-project/berth/pkg/sse"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// apiNode is the far end of these tests: it takes requests, answers what a test has it answer, and tells what changes.
// Its connections are pipes, so that time passes only where all wait.
type apiNode struct {
	t       *testing.T
	boots   func(client.Instance)    // hears of a boot before it is answered; nil: nothing happens
	answers http.HandlerFunc         // answers a boot; nil: the node does
	asked   func(client.Instance)    // hears of a delete, stop, start or reboot before it is answered
	events  http.HandlerFunc         // answers instead of the stream; nil: the stream does
	token   string                   // that a command shows; empty: what findToken finds
	lets    func(*http.Request) bool // says of a request whether its caller has signed in; nil: all have

	mu       sync.Mutex
	http     *http.Server      // nil: it is down
	conns    pipetest.Listener // of http
	unlisted bool              // no host is listed: it shows those alone that have something
	behind   bool              // what it shows is as it was accepted, however much it has told
	shown    map[compute.InstanceID]client.Instance
	log      []client.Event
	grown    chan struct{}  // closed when something was added to the log
	calls    map[string]int // by method and path, without ids
}

func newAPINode(t *testing.T) *apiNode {
	n := &apiNode{
		t: t, token: "t", shown: map[compute.InstanceID]client.Instance{},
		grown: make(chan struct{}), calls: map[string]int{},
	}
	n.start()
	t.Cleanup(n.end)
	return n
}

// start serves until end.
func (n *apiNode) start() {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/instances", n.boot)
	routes.HandleFunc("GET /v1/instances", n.list)
	routes.HandleFunc("GET /v1/instances/{id}", n.show)
	routes.HandleFunc("DELETE /v1/instances/{id}", n.act)
	routes.HandleFunc("POST /v1/instances/{id}/{op}", n.act)
	routes.HandleFunc("GET /v1/events", n.stream)
	routes.HandleFunc("POST /v1/hosts/{host}/evacuate", n.evacuate)
	routes.HandleFunc("GET /v1/hosts/{host}", n.host)
	serves := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n.mu.Lock()
			n.calls[r.Method+" "+strings.Split(r.URL.Path, "/")[2]]++
			n.mu.Unlock()
			if n.lets != nil && !n.lets(r) {
				problem(w, http.StatusUnauthorized, compute.KindUnauthenticated)
				return
			}
			routes.ServeHTTP(w, r)
		})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.http, n.conns = serves, pipetest.Listen()
	go func(l pipetest.Listener) { _ = serves.Serve(l) }(n.conns) // ends with the node
}

// end cuts all connections off; until start none is made.
func (n *apiNode) end() {
	n.mu.Lock()
	serves := n.http
	n.http = nil
	n.mu.Unlock()
	if serves != nil {
		_ = serves.Close() // what is cut off need not be told
	}
}

func (n *apiNode) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	up, at := n.http != nil, n.conns
	n.mu.Unlock()
	if !up {
		return nil, pipetest.ErrRefused
	}
	return at.Dial(ctx)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

func (n *apiNode) boot(w http.ResponseWriter, r *http.Request) {
	if n.answers != nil {
		n.answers(w, r)
		return
	}
	var b rest.Boot
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		n.t.Error(err)
	}
	i := client.Instance{ID: b.ID, Project: "default", Name: b.Name, Flavor: b.Flavor, State: "accepted"}
	n.set(i)
	if n.boots != nil {
		n.boots(i)
	}
	answer(w, http.StatusAccepted, i)
}

func (n *apiNode) act(w http.ResponseWriter, r *http.Request) {
	i := n.get(compute.InstanceID(r.PathValue("id")))
	var wish rest.PowerWish
	if r.PathValue("op") != "" {
		if err := json.NewDecoder(r.Body).Decode(&wish); err != nil {
			n.t.Error(err)
		}
		i.Command = &client.PowerCommand{Op: r.PathValue("op"), Command: wish.Command}
	}
	if n.asked != nil {
		n.asked(i)
	}
	if wish.Command != "" {
		answer(w, http.StatusAccepted, rest.PowerAsked{Command: wish.Command})
		return
	}
	answer(w, http.StatusAccepted, n.get(i.ID))
}

func (n *apiNode) list(w http.ResponseWriter, r *http.Request) {
	var page struct {
		Items []client.Instance `json:"items"`
	}
	for _, id := range append(r.URL.Query()["id"], r.URL.Query()["ref"]...) {
		if i := n.get(compute.InstanceID(id)); i.ID != "" {
			page.Items = append(page.Items, i)
		}
	}
	answer(w, http.StatusOK, page)
}

// remove has the node know an instance no more.
func (n *apiNode) remove(id compute.InstanceID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.shown, id)
}

func (n *apiNode) show(w http.ResponseWriter, r *http.Request) {
	if i := n.get(compute.InstanceID(r.PathValue("id"))); i.ID != "" {
		answer(w, http.StatusOK, i)
		return
	}
	answer(w, http.StatusNotFound, rest.Problem{ // as a node answers of a request that a conductor has refused
		Kind: "not-found", Field: "instance", Message: "does not exist: a conductor refused the request for it",
	})
}

func (n *apiNode) evacuate(w http.ResponseWriter, r *http.Request) {
	h := compute.HostID(r.PathValue("host"))
	n.asked(client.Instance{Host: h})
	answer(w, http.StatusOK, client.HostDead{Host: h, Fence: 1, Instances: map[string]int{"active": 1}})
}

func (n *apiNode) host(w http.ResponseWriter, r *http.Request) {
	h := client.Host{Host: compute.HostID(r.PathValue("host")), Instances: map[string]int{}}
	n.mu.Lock()
	for _, i := range n.shown {
		if i.Host == h.Host {
			h.Instances[string(i.State)]++
		}
	}
	n.mu.Unlock()
	if n.unlisted && len(h.Instances) == 0 {
		problem(w, http.StatusNotFound, compute.KindNotFound)
		return
	}
	answer(w, http.StatusOK, h)
}

// stream tells changes from the end of the log on, or from behind the last id.
func (n *apiNode) stream(w http.ResponseWriter, r *http.Request) {
	if n.events != nil {
		n.events(w, r)
		return
	}
	n.mu.Lock()
	at := len(n.log)
	if _, err := fmt.Sscanf(r.Header.Get("Last-Event-ID"), "0:%d", &at); err != nil &&
		r.Header.Get("Last-Event-ID") != "" {
		n.t.Error(err)
	}
	n.mu.Unlock()
	w.Header().Set("Content-Type", sse.ContentType)
	flush := http.NewResponseController(w)
	_ = sse.Event{ID: fmt.Sprintf("0:%d", at), Retry: time.Second}.Write(w)
	for {
		_ = flush.Flush() // the listener may have gone
		n.mu.Lock()
		var next *client.Event
		grown := n.grown
		if at < len(n.log) {
			next = &n.log[at]
			at++
		}
		n.mu.Unlock()
		if next != nil {
			data, err := json.Marshal(next)
			if err != nil {
				n.t.Error(err)
			}
			_ = sse.Event{ID: fmt.Sprintf("0:%d", at), Name: rest.EventChange, Data: data}.Write(w)
			continue
		}
		select {
		case <-grown:
		case <-time.After(15 * time.Second):
			_ = sse.Event{ID: fmt.Sprintf("0:%d", at)}.Write(w)
		case <-r.Context().Done():
			return
		}
	}
}

func (n *apiNode) get(id compute.InstanceID) client.Instance {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.shown[id]
}

func (n *apiNode) set(i client.Instance) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shown[i.ID] = i
}

// becomes changes an instance, shows it and tells of it.
func (n *apiNode) becomes(id compute.InstanceID, state client.State, more ...func(*client.Instance, *client.Event)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := n.shown[id]
	if n.behind {
		for _, e := range n.log {
			i.Version = max(i.Version, e.Version)
		}
	}
	e := client.Event{Instance: id, Project: i.Project, Name: i.Name, StateBefore: i.State,
		State: state, Version: i.Version + 1}
	i.State, i.Version = state, e.Version
	if state == "active" || state == "starting" {
		i.Host, e.Host = "h1", "h1"
	}
	for _, f := range more {
		f(&i, &e)
	}
	if !n.behind {
		n.shown[id] = i
	}
	n.log = append(n.log, e)
	close(n.grown)
	n.grown = make(chan struct{})
}

func (n *apiNode) called(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[what]
}

// does runs a command against the node.
func (n *apiNode) does(command func(*settings) *cobra.Command, args ...string) (said string, err error) {
	s := &settings{
		api: "http://node", project: "default", output: "table", timeout: 30 * time.Second,
		errs: func() io.Writer { return io.Discard },
		dial: n.dial, token: n.token,
	}
	cmd := command(s)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(n.t.Context())
	return out.String(), err
}

// in runs a test in virtual time.
func in(t *testing.T, test func(t *testing.T, n *apiNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newAPINode(t)) })
}

var bootArgs = []string{"--flavor", "m1.small", "--name", "web", "--wait"}

// later has things happen after some time each, one after the other.
func later(steps ...any) {
	go func() {
		for _, s := range steps {
			switch s := s.(type) {
			case time.Duration:
				time.Sleep(s) // virtual
			case func():
				s()
			}
		}
	}()
}

// TestWaitAsksSeldom: how long a wait takes hardly matters to how often it asks.
func TestWaitAsksSeldom(t *testing.T) {
	for took, most := range map[time.Duration]int{time.Second: 4, 20 * time.Second: 7, 9 * time.Minute: 12} {
		t.Run(took.String(), func(t *testing.T) {
			in(t, func(t *testing.T, n *apiNode) {
				waits := func(i *client.Instance, _ *client.Event) {
					i.Waiting = &client.Reason{Code: compute.NoEligibleHost}
				}
				n.boots = func(i client.Instance) {
					later(10*time.Millisecond, func() { n.becomes(i.ID, "queued", waits) },
						took, func() { n.becomes(i.ID, "starting") },
						time.Second, func() { n.becomes(i.ID, "active") })
				}
				began := time.Now()
				said, err := n.does(newBoot, bootArgs...)
				if lasted := time.Since(began); err != nil || lasted != took+1010*time.Millisecond {
					t.Errorf("%v after %v: %s", err, lasted, said)
				}
				if n.called("POST instances") != 1 || n.called("GET events") != 1 || n.called("GET instances") > most {
					t.Errorf("it asked %v, of lists at most %d are due", n.calls, most)
				}
				for _, line := range []string{
					"web: queued, waiting: NoEligibleHost no host is known", "web: starting on h1", "web: active",
				} {
					if !strings.Contains(said, line+"\n") {
						t.Errorf("%q is not in %s", line, said)
					}
				}
			})
		})
	}
}

// TestWaitForManyAsksSeldom: nor does how many there are.
func TestWaitForManyAsksSeldom(t *testing.T) {
	in(t, func(t *testing.T, n *apiNode) {
		var mu sync.Mutex
		delay := time.Second
		n.boots = func(i client.Instance) {
			mu.Lock()
			defer mu.Unlock()
			delay += 500 * time.Millisecond
			later(delay, func() { n.becomes(i.ID, "starting") }, delay, func() { n.becomes(i.ID, "active") })
		}
		said, err := n.does(newBoot, append(slices.Clone(bootArgs), "--count", "100")...)
		if err != nil || n.called("GET events") != 1 || n.called("GET instances") > 20 {
			t.Errorf("%v: it asked %v: %s", err, n.calls, said)
		}
	})
}

// TestWaitMissesNothing: what happens before the answer to the request counts, also where what the API shows stays
// behind what it has told.
func TestWaitMissesNothing(t *testing.T) {
	in(t, func(t *testing.T, n *apiNode) {
		n.boots = func(i client.Instance) {
			n.mu.Lock()
			n.behind = true
			n.mu.Unlock()
			n.becomes(i.ID, "queued")
			n.becomes(i.ID, "starting")
			n.becomes(i.ID, "active")
		}
		said, err := n.does(newBoot, bootArgs...)
		if err != nil || !strings.Contains(said, "active") || n.called("GET instances") > 2 {
			t.Errorf("%v: it asked %v: %s", err, n.calls, said)
		}
	})
}

// TestWaitWithoutEvents: where there are none, or none come, it asks as often as it has to.
func TestWaitWithoutEvents(t *testing.T) {
	for name, events := range map[string]http.HandlerFunc{
		"an older node": func(w http.ResponseWriter, r *http.Request) {
			answer(w, http.StatusNotFound, rest.Problem{Kind: "not-found", Detail: "no such path"})
		},
		"too many listeners": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			answer(w, http.StatusServiceUnavailable, rest.Problem{Kind: "unavailable", Detail: "too many listeners"})
		},
		"a page instead of a stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<p>hello")
		},
		"a stream that is kept back": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", sse.ContentType)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"a stream that is cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", sse.ContentType)
			_ = sse.Event{ID: "0:0"}.Write(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *apiNode) {
				n.events = events
				n.boots = func(i client.Instance) {
					later(time.Minute, func() { n.becomes(i.ID, "active") })
				}
				began := time.Now()
				said, err := n.does(newBoot, bootArgs...)
				if lasted := time.Since(began); err != nil || lasted < time.Minute || lasted > time.Minute+2*time.Second {
					t.Errorf("%v after %v: %s", err, lasted, said)
				}
				if lists := n.called("GET instances"); lists < 50 || lists > 75 || n.called("GET events") > 10 {
					t.Errorf("it asked %v", n.calls)
				}
			})
		})
	}
}

// TestWaitWhileNodeIsAway: a wait goes on where it was, whatever happened meanwhile.
func TestWaitWhileNodeIsAway(t *testing.T) {
	in(t, func(t *testing.T, n *apiNode) {
		n.boots = func(i client.Instance) {
			later(10*time.Second, func() { n.becomes(i.ID, "queued") },
				10*time.Second, n.end,
				10*time.Second, func() { n.becomes(i.ID, "starting") },
				20*time.Second, n.start,
				9*time.Minute, func() { n.becomes(i.ID, "active") })
		}
		began := time.Now()
		said, err := n.does(newBoot, append(slices.Clone(bootArgs), "--timeout", "1h")...)
		if lasted := time.Since(began); err != nil || lasted != 9*time.Minute+50*time.Second {
			t.Errorf("%v after %v: %s", err, lasted, said)
		}
		if n.called("GET events") != 2 || n.called("GET instances") > 40 {
			t.Errorf("it asked %v", n.calls)
		}
	})
}

// TestWaitEnds: a time-out and a request that was rejected are told as they always were.
func TestWaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(n *apiNode, i client.Instance)
		after   time.Duration
		code    exitCode
		says    string
	}{
		"the time is up": {
			func(n *apiNode, i client.Instance) {
				later(30*time.Second, func() { n.becomes(i.ID, "starting") })
			}, time.Minute, exitTimeout, "waited 1m0s, and it is still so: web: starting on h1; what was asked for goes on",
		},
		"the time is up, and why it waits is told as it is now": {
			func(n *apiNode, i client.Instance) {
				later(time.Second, func() { n.becomes(i.ID, "queued") }, 58*time.Second, func() {
					i.State, i.Version, i.Waiting = "queued", 1, &client.Reason{Code: compute.NoEligibleHost}
					n.set(i)
				})
			}, time.Minute, exitTimeout, "still so: web: queued, waiting: NoEligibleHost no host is known",
		},
		"the node is away when the time is up": {
			func(n *apiNode, _ client.Instance) { later(30*time.Second, n.end) },
			time.Minute, exitTimeout, "still so: web: accepted",
		},
		"it was rejected": {
			func(n *apiNode, i client.Instance) {
				later(20*time.Second, func() { n.remove(i.ID) })
			}, 40 * time.Second, exitNotFound, "a conductor refused the request for it",
		},
		"it was rejected after the last question": {
			func(n *apiNode, i client.Instance) { later(15*time.Second, func() { n.remove(i.ID) }) },
			30 * time.Second, exitNotFound, "a conductor refused the request for it",
		},
		"its cell is another one": {
			func(n *apiNode, i client.Instance) {
				later(time.Second, func() { n.becomes(i.ID, "queued") })
				later(20*time.Second, func() { n.remove(i.ID) })
			}, 9 * time.Minute, exitNotFound, "a conductor refused the request for it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *apiNode) {
				n.boots = func(i client.Instance) { c.happens(n, i) }
				began := time.Now()
				said, err := n.does(newBoot, append(slices.Clone(bootArgs), "--timeout", "1m")...)
				if err == nil || codeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v (%d): %s", err, codeOf(err), said)
				}
				if lasted := time.Since(began); lasted > c.after {
					t.Errorf("it took %v", lasted)
				}
			})
		})
	}
}

// TestWaitForCommands: delete and stop wait by events too, and another command in between ends the wait.
func TestWaitForCommands(t *testing.T) {
	const id = "11111111-1111-4111-8111-111111111111"
	by := func(c compute.CommandID) func(*client.Instance, *client.Event) {
		return func(i *client.Instance, e *client.Event) {
			i.Power, e.Power, e.PowerBefore, i.Command = "stopped", "stopped", "running", nil
			i.Answer = &client.PowerAnswer{Op: "stop", Command: c}
			e.Answer = i.Answer
		}
	}
	pending := func(c *client.PowerCommand) func(*client.Instance, *client.Event) {
		return func(i *client.Instance, e *client.Event) { i.Command, e.Command = c, c }
	}
	stop := func(s *settings) *cobra.Command { return newPower(s, compute.OpStop) }
	for name, c := range map[string]struct {
		command func(*settings) *cobra.Command
		happens func(n *apiNode, i client.Instance)
		fails   string
	}{
		"delete": {newDelete, func(n *apiNode, i client.Instance) {
			n.becomes(id, "deleting")
			later(5*time.Minute, func() { n.becomes(id, "deleted") })
		}, ""},
		"stop": {stop, func(n *apiNode, i client.Instance) {
			later(5*time.Minute, func() { n.becomes(id, "active", by(i.Command.Command)) })
		}, ""},
		"stop, and another stops it": {stop, func(n *apiNode, i client.Instance) {
			n.becomes(id, "active", pending(i.Command))
			later(5*time.Minute, func() {
				n.becomes(id, "active", pending(&client.PowerCommand{Op: "stop", Command: "another"}))
			})
		}, "another command came after this stop"},
		"stop, and another that came before is read first": {stop, func(n *apiNode, i client.Instance) {
			n.becomes(id, "active", by("another"))
			later(5*time.Second, func() { n.becomes(id, "active", pending(i.Command)) },
				5*time.Minute-5*time.Second, func() { n.becomes(id, "active", by(i.Command.Command)) })
		}, ""},
		"stop, and it is deleted": {stop, func(n *apiNode, i client.Instance) {
			later(5*time.Minute, func() { n.becomes(id, "deleting") })
		}, "is deleting: there is nothing to stop any more"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *apiNode) {
				n.set(client.Instance{ID: id, Project: "default", Name: "web", State: "active", Host: "h1", Version: 3})
				n.asked = func(i client.Instance) { c.happens(n, i) }
				began := time.Now()
				said, err := n.does(c.command, id, "--wait")
				if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v: %s", err, said)
				}
				if time.Since(began) != 5*time.Minute || n.called("GET events") != 1 || n.called("GET instances") > 12 {
					t.Errorf("after %v: it asked %v", time.Since(began), n.calls)
				}
			})
		})
	}
}

// TestWaitForHost: what a dead host had is waited for by what becomes of it.
func TestWaitForHost(t *testing.T) {
	in(t, func(t *testing.T, n *apiNode) {
		const id = "11111111-1111-4111-8111-111111111111"
		n.set(client.Instance{ID: id, Name: "web", State: "active", Host: "h2", Version: 3})
		n.asked = func(client.Instance) { later(5*time.Minute, func() { n.becomes(id, "starting") }) }
		began := time.Now()
		said, err := n.does(newHostEvacuate, "h2", "--fenced", "--wait", "--timeout", "0")
		if err != nil || !strings.Contains(said, "1 instance left on host h2\n0 instances left on host h2\n") {
			t.Errorf("%v: %s", err, said)
		}
		if lasted := time.Since(began); lasted != 5*time.Minute || n.called("GET events") != 1 || n.called("GET hosts") > 10 {
			t.Errorf("after %v: it asked %v", lasted, n.calls)
		}
	})
}

// TestWaitForADeadHostThatIsNotListed: a node shows it for as long as it has something, and has no such host then.
func TestWaitForADeadHostThatIsNotListed(t *testing.T) {
	in(t, func(t *testing.T, n *apiNode) {
		const id = "11111111-1111-4111-8111-111111111111"
		n.set(client.Instance{ID: id, Name: "web", State: "active", Host: "h2", Version: 3})
		n.unlisted = true
		n.asked = func(client.Instance) { later(5*time.Minute, func() { n.becomes(id, "starting") }) }
		began := time.Now()
		said, err := n.does(newHostEvacuate, "h2", "--fenced", "--wait", "--timeout", "0")
		if lasted := time.Since(began); err != nil || lasted != 5*time.Minute ||
			!strings.Contains(said, "1 instance left on host h2\n0 instances left on host h2\n") {
			t.Errorf("after %v: %v: %s", lasted, err, said)
		}
	})
}

// What something else than a node answers ends a wait only if no node was there before: it is a proxy's then.
func TestWaitBesideForeignAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := rest.Foreign(404)
		answers := []error{nil, foreign, foreign, nil}
		if err := until(t.Context(), time.Hour, func(context.Context) (bool, string, error) {
			err := answers[0]
			answers = answers[1:]
			return len(answers) == 0, "", err
		}); err != nil {
			t.Error(err)
		}
		if err := until(t.Context(), time.Hour, func(context.Context) (bool, string, error) {
			return false, "", foreign
		}); compute.KindOf(err) != compute.KindNotFound {
			t.Errorf("a wrong address: %v", err)
		}
	})
}

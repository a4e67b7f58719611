// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// streams answers one connection after the other with what is written there, and breaks it off.
type streams struct {
	t     *testing.T
	says  []string
	asked []string
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.URL.RawQuery+" after "+r.Header.Get("Last-Event-ID"))
	if len(s.says) == 0 {
		s.t.Error("asked once more")
		return
	}
	says := s.says[0]
	s.says = s.says[1:]
	var status int
	if n, _ := fmt.Sscanf(says, "text %d", &status); n == 1 { // as of a proxy that has no node to ask
		http.Error(w, "default backend", status)
		return
	}
	if n, _ := fmt.Sscanf(says, "%d", &status); n == 1 {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status)
		kind := map[int]string{401: "unauthenticated", 403: "forbidden", 503: "unavailable"}[status]
		_, _ = io.WriteString(w, `{"kind":"`+kind+`","detail":"d"}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, says)
}

func change(id, name string) string {
	return "id: " + id + "\nevent: change\ndata: {\"name\":\"" + name + "\",\"id\":\"" + id + "\"}\n\n"
}

const quick = "retry: 1\n"

func TestEvents(t *testing.T) {
	end := func(why string) string { return "event: end\ndata: {\"why\":\"" + why + "\"}\n\n" }
	for name, c := range map[string]struct {
		says  []string
		ask   Follow
		asked []string
		heard []string
		fails string // kind; empty: it does not
		lost  int
	}{
		"it goes on behind what came last": {
			[]string{
				quick + "id: 3:1\n\n" + change("3:2", "a") + "id: 3:9\nevent: change\nda", // cut off within
				"503", "id: 3:2\n\n: still here\n\n" + change("3:4", "b") + "id: 3:7\n\n" + end("stopping"),
				end("slow"), quick + change("3:9", "c") + end("caught-up"),
			},
			Follow{Once: true, Instance: "i", Host: "h", States: []compute.State{compute.StateError}, Reasons: []compute.ReasonCode{"R"}},
			[]string{
				"follow=false&host=h&instance=i&project=web&reason=R&state=error after ",
				"follow=false&host=h&instance=i&project=web&reason=R&state=error after 3:2",
				"follow=false&host=h&instance=i&project=web&reason=R&state=error after 3:2",
				"follow=false&host=h&instance=i&project=web&reason=R&state=error after 3:7",
				"follow=false&host=h&instance=i&project=web&reason=R&state=error after 3:7",
			},
			[]string{"change a 3:2", "change b 3:4", "change c 3:9"}, "", 4,
		},
		"the present comes anew where it was cut off": {
			[]string{
				quick + "\nevent: present\ndata: {\"name\":\"a\"}\n\n",
				quick + "\nevent: present\ndata: {\"name\":\"a\"}\n\nid: 3:5\nevent: presented\ndata: {\"id\":\"3:5\"}\n\n",
				"id: 3:8\nevent: gap\ndata: {\"id\":\"3:8\",\"why\":\"forgotten\"}\n\nevent: later\ndata: 7\n\n" + end("caught-up"),
			},
			Follow{Present: true, AllProjects: true, Since: time.Unix(0, 0)},
			[]string{
				"present=true&project=%2A&since=1970-01-01T00%3A00%3A00Z after ",
				"present=true&project=%2A&since=1970-01-01T00%3A00%3A00Z after ",
				"present=true&project=%2A after 3:5",
			},
			[]string{"present a ", "present a ", "presented  3:5", "gap  3:8"}, "", 2,
		},
		"the present that comes after a gap comes from whichever node is next": {
			[]string{
				quick + "id: 3:8\nevent: gap\ndata: {\"id\":\"3:8\",\"why\":\"forgotten\"}\n\n",
				quick + "event: present\ndata: {\"name\":\"a\"}\n\nid: 3:9\nevent: presented\ndata: {\"id\":\"3:9\"}\n\n" + end("caught-up"),
			},
			Follow{Present: true, After: "3:1"},
			[]string{"present=true&project=web after 3:1", "present=true&project=web after "},
			[]string{"gap  3:8", "present a ", "presented  3:9"}, "", 1,
		},
		"it ends where it is refused": {
			[]string{quick + change("3:2", "a"), "401"}, Follow{After: "3:1"},
			[]string{"project=web after 3:1", "project=web after 3:2"}, []string{"change a 3:2"},
			"unauthenticated", 1,
		},
		"what something else answers meanwhile is no refusal": {
			[]string{quick + change("3:2", "a"), "text 404", "text 400", quick + change("3:4", "b") + end("caught-up")},
			Follow{After: "3:1"},
			[]string{
				"project=web after 3:1", "project=web after 3:2", "project=web after 3:2", "project=web after 3:2",
			},
			[]string{"change a 3:2", "change b 3:4"}, "", 3,
		},
		"something else answers at once": {
			[]string{"text 404"}, Follow{}, []string{"project=web after "}, nil, "not-found", 0,
		},
		"it is refused at once": {[]string{"403"}, Follow{}, []string{"project=web after "}, nil, "forbidden", 0},
		"nonsense":              {[]string{"event: change\ndata: {\n\n"}, Follow{}, []string{"project=web after "}, nil, "internal", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &streams{t: t, says: c.says}
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			client, err := New(Config{Address: server.URL, Project: "web", Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			var heard []string
			lost := 0
			c.ask.Lost = func(error) { lost++ }
			for told, failed := range client.Events(t.Context(), c.ask) {
				if err = failed; failed == nil {
					heard = append(heard, told.Kind+" "+told.Event.Name+" "+told.ID)
				}
			}
			if diff := cmp.Diff(c.heard, heard); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.asked, s.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if (err != nil) != (c.fails != "") || err != nil && compute.KindOf(err).String() != c.fails || lost != c.lost {
				t.Errorf("%v, lost %d times", err, lost)
			}
		})
	}
}

// A caller that has heard enough, and one whose context ends, end it.
func TestEventsEndWithTheirCaller(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, change("3:2", "a")+change("3:3", "b"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-held:
		}
	}))
	t.Cleanup(server.Close)
	defer close(held)
	client, err := New(Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for told, err := range client.Events(t.Context(), Follow{}) {
		if err != nil || told.Event.Name != "a" {
			t.Errorf("%+v %v", told, err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var names []string
	for told, err := range client.Events(ctx, Follow{}) {
		if err != nil {
			t.Error(err)
		}
		if names = append(names, told.Event.Name); len(names) == 2 {
			cancel()
		}
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("heard %v", names)
	}
}

// TestEventsBeginInTime: the timeout of requests is that of an answer's beginning, and no longer one of what is told.
func TestEventsBeginInTime(t *testing.T) {
	for name, c := range map[string]struct {
		begins time.Duration // after the request; 0: never
		heard  int
		ends   time.Duration
		says   string
		kind   compute.Kind
	}{
		"never":   {0, 0, 5 * time.Second, "did not answer in time", compute.KindTimeout},
		"in time": {4 * time.Second, 1, 4*time.Second + 10*time.Second + silentFor, "is lost", compute.KindUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						defer func() { _ = far.Close() }()
						_, _ = http.ReadRequest(bufio.NewReader(far))
						if c.begins > 0 {
							time.Sleep(c.begins)
							_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
							time.Sleep(10 * time.Second)
							_, _ = io.WriteString(far, change("3:2", "a"))
						}
						_, _ = far.Read(make([]byte, 1)) // until the client hangs up
					}()
					return near, nil
				}
				client, err := New(Config{Address: "http://berth.test", Dial: dial, Timeout: 5 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began, heard := time.Now(), 0
				lost := func(failed error) { err = failed; cancel() }
				for _, failed := range client.Events(ctx, Follow{Lost: lost}) {
					if heard++; failed != nil {
						err, heard = failed, heard-1
					}
				}
				if time.Since(began) != c.ends || heard != c.heard || compute.KindOf(err) != c.kind ||
					!strings.Contains(err.Error(), c.says) {
					t.Errorf("after %s, %d heard: %v", time.Since(began), heard, err)
				}
			})
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

// far answers what it is told and notes what it was asked. Against the real
// server the client is tested with the command line.
type far struct {
	status int
	body   string
	asked  []string
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.asked = append(f.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

func talk(t *testing.T, f *far) *Client {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := New(Config{Address: server.URL, Project: "web"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestWhatIsAsked(t *testing.T) {
	ctx := t.Context()
	by := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for want, call := range map[string]func(*Client) error{
		"GET /v1/audit?limit=7&operation=boot&project=web&result=refused&since=2026-03-04T05%3A06%3A07Z&who=ci": func(c *Client) error {
			_, err := c.Audit(ctx, AuditFilter{"web", "ci", "boot", "refused", by}, 7)
			return err
		},
		"GET /v1/audit?limit=1000": func(c *Client) error {
			_, err := c.Audit(ctx, AuditFilter{}, 5000)
			return err
		},
		`POST /v1/instances {"id":"i","project":"web","flavor":"f","on_no_capacity":"wait"}`: func(c *Client) error {
			_, err := c.Boot(ctx, "i", compute.Boot{Flavor: "f"})
			return err
		},
		`GET /v1/instances/i?project=web`:    func(c *Client) error { _, err := c.Instance(ctx, "i"); return err },
		`DELETE /v1/instances/i?project=web`: func(c *Client) error { _, err := c.Delete(ctx, "i"); return err },
		`GET /v1/instances/a%2Fb%3F?project=web`: func(c *Client) error {
			_, err := c.Instance(ctx, "a/b?")
			return err
		},
		`GET /v1/instances?all=true&flavor=f&host=h&id=a&id=b&name=n&project=web&queue=q&ref=r` +
			`&state=active&state=error`: func(c *Client) error {
			_, err := c.Instances(ctx, Filter{
				States: []compute.State{compute.StateActive, compute.StateError}, All: true, Name: "n", Host: "h",
				Queue: "q", Flavor: "f", IDs: []compute.InstanceID{"a", "b"}, Ref: "r",
			})
			return err
		},
		`POST /v1/flavors?dry_run=true {"name":"f","resources":{"VCPU":1}}`: func(c *Client) error {
			_, err := c.AddFlavor(ctx, compute.Flavor{Name: "f", Resources: compute.Resources{compute.VCPU: 1}}, true)
			return err
		},
		`GET /v1/flavors`:   func(c *Client) error { _, err := c.Flavors(ctx); return err },
		`GET /v1/flavors/f`: func(c *Client) error { _, err := c.Flavor(ctx, "f"); return err },
		`DELETE /v1/flavors/f`: func(c *Client) error {
			_, err := c.RemoveFlavor(ctx, "f", false)
			return err
		},
		`GET /v1/capabilities`: func(c *Client) error { _, err := c.Capabilities(ctx); return err },
		`GET /v1/capabilities/a`: func(c *Client) error {
			_, err := c.Capability(ctx, "a")
			return err
		},
		`DELETE /v1/capabilities/a?dry_run=true`: func(c *Client) error {
			_, err := c.RemoveCapability(ctx, "a", true)
			return err
		},
		`DELETE /v1/capabilities/a?value=v&value=w`: func(c *Client) error {
			_, err := c.RemoveValues(ctx, "a", []compute.AxisValue{"v", "w"}, false, false)
			return err
		},
		`DELETE /v1/capabilities/a?drain=true&dry_run=true&value=v`: func(c *Client) error {
			_, err := c.RemoveValues(ctx, "a", []compute.AxisValue{"v"}, true, true)
			return err
		},
		`POST /v1/capabilities {"axis":"a","values":[{"value":"v"}]}`: func(c *Client) error {
			_, err := c.AddCapability(ctx,
				compute.Capability{Axis: "a", Values: []compute.CapabilityValue{{Value: "v"}}}, false)
			return err
		},
		`GET /v1/quotas`:          func(c *Client) error { _, err := c.Quotas(ctx); return err },
		`GET /v1/quotas/_default`: func(c *Client) error { _, err := c.Quota(ctx, compute.DefaultQuota); return err },
		`PUT /v1/quotas/p {"limits":{"VCPU":1}}`: func(c *Client) error {
			_, err := c.SetQuota(ctx, compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: 1}})
			return err
		},
		`PATCH /v1/quotas/p {"limits":{"DISK_GB":null,"VCPU":1}}`: func(c *Client) error {
			one := int64(1)
			_, err := c.ChangeQuota(ctx, "p", QuotaChange{
				Limits: map[compute.ResourceClass]*int64{compute.VCPU: &one, compute.DiskGB: nil},
			})
			return err
		},
		`PATCH /v1/groups/g?project=web {"spread":"","max_skew":2}`: func(c *Client) error {
			none, two := compute.AxisName(""), uint32(2)
			_, err := c.ChangeGroup(ctx, "g", GroupChange{Spread: &none, Skew: &two})
			return err
		},
		`GET /v1/queues?limit=1000`: func(c *Client) error {
			_, err := c.Queues(ctx, "")
			return err
		},
		`GET /v1/queues?flavor=f&limit=1000`: func(c *Client) error {
			_, err := c.Queues(ctx, "f")
			return err
		},
		`GET /v1/queues/q`: func(c *Client) error {
			_, err := c.Queue(ctx, "q")
			return err
		},
		`GET /v1/hosts`: func(c *Client) error {
			_, err := c.Hosts(ctx)
			return err
		},
		`GET /v1/hosts/h`: func(c *Client) error {
			_, err := c.Host(ctx, "h")
			return err
		},
		`POST /v1/hosts/h/enable {"reason":"r"}`: func(c *Client) error {
			_, err := c.Enable(ctx, "h", "r")
			return err
		},
		`POST /v1/hosts/h/disable {}`: func(c *Client) error {
			_, err := c.Disable(ctx, "h", "")
			return err
		},
		`POST /v1/hosts/h/drain {"deadline":"2026-03-04T05:06:07Z"}`: func(c *Client) error {
			_, err := c.Drain(ctx, "h", "", by)
			return err
		},
	} {
		f := &far{status: 200, body: `{"id": "i"}`}
		if err := call(talk(t, f)); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if diff := cmp.Diff([]string{want}, f.asked); diff != "" {
			t.Error(diff)
		}
	}
}

// TestEveryProblemComesBack with its kind and what there is to do.
func TestEveryProblemComesBack(t *testing.T) {
	for k := compute.KindInternal; k <= compute.KindTimeout; k++ {
		want := &compute.Error{
			Kind: k, Field: "flavor", Value: "x", Message: "does not exist", Remedy: "try y",
			Reason: &compute.Reason{Code: compute.NoSuchFlavor, Detail: "x"},
		}
		p := rest.NewProblem(want)
		body, _ := json.Marshal(p)
		_, err := talk(t, &far{status: p.Status, body: string(body)}).Flavors(t.Context())
		var got *compute.Error
		if !errors.As(err, &got) {
			t.Fatalf("%T", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAnswersThatAreNotOurs(t *testing.T) {
	for _, f := range []far{{status: 502, body: "<html>"}, {status: 503, body: `{}`}} {
		if _, err := talk(t, &f).Flavors(t.Context()); compute.KindOf(err) != compute.KindUnavailable ||
			!strings.Contains(err.Error(), "is this the address of a Berth API node?") {
			t.Errorf("%d: %v", f.status, err)
		}
	}
	if _, err := talk(t, &far{status: 200, body: "<html>"}).Flavors(t.Context()); err == nil {
		t.Error("a page of HTML is no list of flavors")
	}
	newer := &far{status: 200, body: `{"items":[{"name":"f","later":1}]}`}
	if got, err := talk(t, newer).Flavors(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("a newer server's fields are no error: %v", err)
	}
}

// What is redirected is not done: net/http would make a GET of it, of which the answer looks as if it had been.
func TestRedirectsAreRefused(t *testing.T) {
	behind := &far{status: 200, body: `{"id": "11111111-1111-4111-8111-111111111111", "state": "active", "items": []}`}
	server := httptest.NewServer(behind)
	defer server.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		before := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, server.URL+r.URL.Path, status)
		}))
		c, err := New(Config{Address: before.URL, Project: "web"})
		if err != nil {
			t.Fatal(err)
		}
		for what, ask := range map[string]func(context.Context, *Client) error{
			"boot": boots(""), "delete": deletes, "quota": limits, "flavor": offers, "hosts": hosts,
			"events": func(ctx context.Context, c *Client) error {
				for _, err := range c.Events(ctx, Follow{}) {
					return err
				}
				return nil
			},
		} {
			err := ask(t.Context(), c)
			if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(fmt.Sprint(err), server.URL) || !IsForeign(err) {
				t.Errorf("%s by %d: %v", what, status, err)
			}
		}
		c.Close()
		before.Close()
	}
	if len(behind.asked) > 0 {
		t.Errorf("was asked behind the redirect: %v", behind.asked)
	}
}

// An answer to a boot that names no instance is another server's.
func TestABootHasAnID(t *testing.T) {
	c := talk(t, &far{status: 200, body: `{"items": []}`})
	if i, err := c.Boot(t.Context(), "", compute.Boot{Flavor: "f"}); err == nil {
		t.Errorf("it is %+v", i)
	}
	if set, err := c.BootSet(t.Context(), make([]compute.SetBoot, 2)); err == nil {
		t.Errorf("the set is %+v", set)
	}
}

// A proxy's 502 says nothing of what a node did that it had asked; nothing is done by what only reads or tries.
func TestA502(t *testing.T) {
	c := talk(t, &far{status: 502, body: "bad gateway"})
	for what, x := range map[string]struct {
		ask  func(context.Context, *Client) error
		want compute.Kind
	}{
		"boot": {boots(""), compute.KindTimeout}, "delete": {deletes, compute.KindTimeout},
		"flavor": {offers, compute.KindTimeout}, "hosts": {hosts, compute.KindUnavailable},
		"dry run": {func(ctx context.Context, c *Client) error {
			_, err := c.AddFlavor(ctx, compute.Flavor{Name: "f"}, true)
			return err
		}, compute.KindUnavailable},
		"placements": {func(ctx context.Context, c *Client) error {
			_, err := c.PlacementUnder(ctx, "k", compute.Boot{Flavor: "f"})
			return err
		}, compute.KindUnavailable},
	} {
		if err := x.ask(t.Context(), c); compute.KindOf(err) != x.want {
			t.Errorf("%s: %v is %s, want %s", what, err, compute.KindOf(err), x.want)
		}
	}
}

func TestNamesThatName(t *testing.T) {
	f := &far{status: 200, body: `{"id": "i"}`}
	c := talk(t, f)
	for _, name := range []compute.HostID{"", ".", ".."} {
		if _, err := c.Host(t.Context(), name); compute.KindOf(err) != compute.KindNotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("asked %v", f.asked)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "ftp://x", "http://", "http://%", "://x"} {
		if _, err := New(Config{Address: bad}); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for good, want := range map[string]string{
		"127.0.0.1:7070": "http://127.0.0.1:7070", "https://x/berth/": "https://x/berth/",
	} {
		if c, err := New(Config{Address: good}); err != nil || c.base.String() != want {
			t.Errorf("%q: %v %v", good, c, err)
		}
	}
}

// TestAddressWithAUser: it is refused, and no password is shown, also of what is no address otherwise.
func TestAddressWithAUser(t *testing.T) {
	for _, bad := range []string{
		"https://ci:hunter2@proxy:7070", "ci:hunter2@proxy:7070", "http://hunter2@proxy:7070",
		"http://ci:hunter2%zz@proxy:7070", "http://ci:80/hunter2@proxy:7070",
	} {
		_, err := New(Config{Address: bad})
		if compute.KindOf(err) != compute.KindInvalid || strings.Contains(err.Error(), "hunter2") ||
			!strings.Contains(err.Error(), `api "proxy:7070"`) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	c, err := New(Config{Address: "http://berth.test", Dial: refused})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Hosts(t.Context()); compute.KindOf(err) != compute.KindUnavailable ||
		!strings.Contains(err.Error(), "BERTH_API") {
		t.Error(err)
	}
}

// TestNoAnswerInTime: the outcome is unknown, which is not the same as refused.
func TestNoAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		// a dial may go on for the next request
		silent := func(context.Context, string, string) (net.Conn, error) { <-over; return nil, net.ErrClosed }
		c, err := New(Config{Address: "http://berth.test", Dial: silent, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Hosts(t.Context())
		if compute.KindOf(err) != compute.KindTimeout || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Hosts(ctx); compute.KindOf(err) != compute.KindUnavailable ||
			!strings.Contains(err.Error(), "called off") {
			t.Error(err)
		}
	})
}

func TestPagesAndManyIDs(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, fmt.Sprintf("%d ids after %q", len(q["id"]), q.Get("marker")))
		page := rest.Instances{Items: []rest.Instance{{ID: compute.InstanceID(fmt.Sprint(len(asked)))}}}
		if q.Get("marker") == "" {
			page.Next = "here"
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	c, err := New(Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Instances(t.Context(), Filter{IDs: make([]compute.InstanceID, maxIDs+1)})
	if err != nil || len(got) != 4 {
		t.Errorf("%v %v", got, err)
	}
	if diff := cmp.Diff(
		[]string{`200 ids after ""`, `200 ids after "here"`, `1 ids after ""`, `1 ids after "here"`}, asked,
	); diff != "" {
		t.Error(diff)
	}
}

// TestQueuePages: a page is asked for when the one before is done with, behind what
// it ended with; the first error ends it.
func TestQueuePages(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		switch r.URL.Query().Get("marker") {
		case "":
			_ = json.NewEncoder(w).Encode(rest.Queues{Items: []rest.QueueView{{Name: "a"}, {Name: "b"}}, Next: "b"})
		case "b":
			_ = json.NewEncoder(w).Encode(rest.Queues{Items: []rest.QueueView{{Name: "c"}}, Next: "c"})
		default:
			rest.NewProblem(compute.NotFound("queue", "c", "look elsewhere")).Answer(w)
		}
	}))
	defer server.Close()
	c, err := New(Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	walk := func(most int) (said []string) {
		asked = nil
		for page, err := range c.QueuePages(t.Context(), "f") {
			for _, q := range page {
				said = append(said, string(q.Name))
			}
			if err != nil {
				said = append(said, compute.KindOf(err).String())
			}
			if most--; most == 0 {
				break
			}
		}
		return append(said, asked...)
	}
	first, second, third := "flavor=f&limit=1000", "flavor=f&limit=1000&marker=b", "flavor=f&limit=1000&marker=c"
	if diff := cmp.Diff([]string{"a", "b", first}, walk(1)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "not-found", first, second, third}, walk(9)); diff != "" {
		t.Error(diff)
	}
	if all, err := c.Queues(t.Context(), "f"); all != nil || compute.KindOf(err) != compute.KindNotFound {
		t.Errorf("a list that broke off: %v %v", all, err)
	}
}

// TestKeyWithoutAProject stands for what the server makes of it.
func TestKeyWithoutAProject(t *testing.T) {
	if got, want := KeyedID("", "deploy-42"), KeyedID("default", "deploy-42"); got != want ||
		got == KeyedID("p", "deploy-42") {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTokensOfARequest: each request and each connection of a stream shows the token of that moment; without one none
// does.
func TestTokensOfARequest(t *testing.T) {
	var shown []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		if r.URL.Path != "/v1/events" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, quick+"id: 3:1\n\n")
		if len(shown) == 3 {
			_, _ = io.WriteString(w, "event: end\ndata: {\"why\":\"caught-up\"}\n\n")
		}
	}))
	defer server.Close()
	n := 0
	for _, c := range []Config{
		{Token: "old", TokenNow: func() string { n++; return fmt.Sprint(n) }}, {Token: "fixed"}, {},
	} {
		c.Address = server.URL
		one, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		if _, err := one.Whoami(t.Context()); err != nil {
			t.Error(err)
		}
		if c.TokenNow == nil {
			continue
		}
		for _, err := range one.Events(t.Context(), Follow{Once: true}) {
			t.Error(err)
		}
	}
	want := []string{"Bearer 1", "Bearer 2", "Bearer 3", "Bearer fixed", ""}
	if !slices.Equal(shown, want) {
		t.Errorf("shown %q, want %q", shown, want)
	}
}

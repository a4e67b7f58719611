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
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		f := &far{status: 200, body: "{}"}
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

func TestNamesThatName(t *testing.T) {
	f := &far{status: 200, body: "{}"}
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

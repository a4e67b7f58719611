// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestOpenAPIIsAsCommitted(t *testing.T) {
	n := newNode(t)
	a := n.do("GET", "/openapi.json", nil)
	const golden = "testdata/openapi.json"
	if *rewrite {
		if err := os.WriteFile(golden, a.body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, a.body) {
		equal(t, "openapi.json; run with -rewrite and review", strings.Split(string(want), "\n"),
			strings.Split(string(a.body), "\n"))
	}
}

func TestOpenAPIHolds(t *testing.T) {
	n := newNode(t)
	body := n.do("GET", "/openapi.json", nil).body
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Responses   map[string]any
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("version %q, %v", doc.OpenAPI, err)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`"\$ref": "#/components/schemas/([^"]+)"`).FindAllStringSubmatch(
		string(body), -1,
	) {
		used[m[1]] = true
		if doc.Components.Schemas[m[1]] == nil {
			t.Errorf("$ref to %s, which is not there", m[1])
		}
	}
	for name := range doc.Components.Schemas {
		if !used[name] {
			t.Errorf("schema %s is used by nothing", name)
		}
	}
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.OperationID == "" || op.Summary == "" || ids[op.OperationID] || len(op.Responses) < 2 {
				t.Errorf("%s %s: id %q, summary %q, %d responses",
					method, path, op.OperationID, op.Summary, len(op.Responses))
			}
			ids[op.OperationID] = true
		}
	}
	if len(ids) != 57 {
		t.Errorf("%d operations", len(ids))
	}
}

// TestDocsNeedNoInternet: the page and what it loads come from this node, and the browser is told to refuse anything
// else. Our own files name no other place and set no markup; what Redoc does, TestDocs in pkg/ui looks at in a browser.
func TestDocsNeedNoInternet(t *testing.T) {
	n := newNode(t)
	page := n.do("GET", "/docs", nil)
	policy := page.header.Get("Content-Security-Policy")
	if page.status != 200 || !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe-inline") ||
		strings.Contains(policy, "unsafe-eval") {
		t.Fatalf("%d %v", page.status, page.header)
	}
	loaded := regexp.MustCompile(`(?:\bsrc=|\bhref=|\bfrom )"([^"]+)"`)
	files, seen := []answer{page}, map[string]bool{"/openapi.json": true, "/ui/icon.svg": true}
	for i := 0; i < len(files); i++ {
		if bytes.Contains(files[i].body, []byte("innerHTML")) || bytes.Contains(files[i].body, []byte("eval(")) {
			t.Errorf("sets markup: %s", files[i].body)
		}
		for _, m := range loaded.FindAllStringSubmatch(string(files[i].body), -1) {
			at := m[1]
			a := n.do("GET", at, nil)
			if a.status != 200 || !strings.HasPrefix(at, "/") {
				t.Errorf("%s: %d", at, a.status)
			}
			if !seen[at] && !strings.HasPrefix(at, "/docs/vendor/") {
				files = append(files, a)
			}
			seen[at] = true
		}
	}
	if len(files) != 3 || !seen["/docs/vendor/redoc.js"] {
		t.Errorf("%d files of ours, want the page, its script and its style; seen %v", len(files), seen)
	}
	if a := n.do("GET", "/", nil); a.status != 302 || a.header.Get("Location") != "/ui/" {
		t.Errorf("/ answers %d to %s", a.status, a.header.Get("Location"))
	}
	n.do("GET", "/docs/vendor/nothing.js", nil).refused(404, compute.KindNotFound)
}

func TestNotCaughtUp(t *testing.T) {
	n := unreadNode(t)
	steps := []struct {
		topic string
		read  func()
	}{
		{"instances, requests, queues, hosts, catalog", func() { n.Instances(nil, true) }},
		{"requests, queues, hosts, catalog", func() { n.Requests(nil, false); n.Requests(nil, true) }},
		{"queues, hosts, catalog", func() { n.Hosts(nil, true) }},
		{"queues, catalog", func() { n.Queues(nil, true) }},
		{"catalog", func() { n.catalog.Apply(nil, true) }},
	}
	for _, step := range steps {
		p := n.do("GET", "/readyz", nil).refused(503, compute.KindUnavailable)
		if !strings.HasSuffix(p.Message, "still reading "+step.topic) {
			t.Errorf("%s, want %s", p.Message, step.topic)
		}
		n.do("GET", path(id1), nil).refused(503, compute.KindUnavailable)
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(503, compute.KindUnavailable)
		if a := n.do("GET", "/healthz", nil); a.status != 200 {
			t.Errorf("healthz %d", a.status)
		}
		step.read()
	}
	if a := n.do("GET", "/readyz", nil); a.status != 200 || string(a.body) != "{\"status\":\"ok\"}\n" {
		t.Errorf("readyz %d %s", a.status, a.body)
	}
}

func TestWrongPathsMethodsAndTypes(t *testing.T) {
	n := newNode(t)
	n.do("GET", "/v1/nothing", nil).refused(404, compute.KindNotFound)
	n.do("GET", "/v2/instances", nil).refused(404, compute.KindNotFound)
	a := n.do("PUT", "/v1/instances", nil)
	a.refused(405, compute.KindInvalid)
	if a.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow: %s", a.header.Get("Allow"))
	}
	req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader("flavor: m1.small"))
	req.Header.Set("Content-Type", "application/yaml")
	n.ask(req).refused(415, compute.KindInvalid)
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		req = httptest.NewRequest("POST", "/v1/hosts/h1/drain", nil)
		req.Header.Set(header, value)
		n.ask(req).refused(403, compute.KindForbidden)
	}
}

// TestCausesGoToTheLog and not to the caller.
func TestCausesGoToTheLog(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	n := newNode(t)
	n.log = zap.New(core)
	err := n.refuse(t.Context(), "boot", errors.New("password wrong"))
	var p *rest.Problem
	if !errors.As(err, &p) || p.Status != 500 || strings.Contains(p.Detail, "password") {
		t.Errorf("answered %+v", err)
	}
	if logged.Len() != 1 || !strings.Contains(logged.All()[0].ContextMap()["error"].(string), "password wrong") {
		t.Errorf("logged %+v", logged.All())
	}
	n.refuse(t.Context(), "boot", compute.NotFound("flavor", "x", ""))
	if logged.Len() != 1 {
		t.Error("what the caller did wrong is none of the operator's business")
	}
}

// TestCausesAreFoundByTheRequest that the caller was told.
func TestCausesAreFoundByTheRequest(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	n := newNode(t)
	n.log = zap.New(core)
	n.offer()
	n.fail = errors.New("no brokers")
	req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(`{"flavor": "m1.small"}`))
	req.Header.Set(audit.RequestHeader, "3f2")
	a := n.ask(req)
	if a.status != 504 || logged.Len() != 1 || logged.All()[0].ContextMap()["request"] != "3f2" {
		t.Errorf("%d %s; logged %+v", a.status, a.body, logged.All())
	}
}

func TestConfigRefusals(t *testing.T) {
	if _, err := New(Config{}); compute.KindOf(err) != compute.KindInvalid ||
		!strings.Contains(err.Error(), "partitions") {
		t.Error(err)
	}
	for _, address := range []string{"0.0.0.0:7070", ":7070", "192.0.2.1:80", "example.com:80", "127.0.0.1"} {
		if err := CheckAddress(address); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:7070", "[::1]:7070", "127.1.2.3:1"} {
		if err := CheckAddress(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

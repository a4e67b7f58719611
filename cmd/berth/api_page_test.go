// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-project/berth/pkg/api/docs"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// otherwise are the examples that this cell does not answer as the operation says.
var otherwise = map[string]struct {
	status int
	where  string // it is so
}{
	"evacuate-host": {http.StatusConflict, "where the host is alive"},
	"forget-host":   {http.StatusConflict, "where the host is alive"},
	"list-audit":    {http.StatusConflict, "where the node keeps no audit"},
}

// operation is what the page needs of an operation in the OpenAPI document.
type operation struct {
	ID          string   `json:"operationId"`
	Summary     string   `json:"summary"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Parameters  []struct {
		Name, In, Description string
		Required              bool
	} `json:"parameters"`
	RequestBody struct{ Content map[string]media } `json:"requestBody"`
	Responses   map[string]struct {
		Content map[string]media `json:"content"`
	} `json:"responses"`
	method, path string
}

type media struct{ Schema schema }

// TestPageOfTheAPI: docs/API.md has every operation of the OpenAPI document with an example, and a whole cell answers
// the example as the operation says. What is said of refusals was heard there too. BERTH_UPDATE=1 writes the page.
func TestPageOfTheAPI(t *testing.T) {
	api, all := readOpenAPI(t), map[string]operation{}
	for path, methods := range api.Paths {
		for method, o := range methods {
			o.method, o.path = strings.ToUpper(method), path
			all[o.ID] = o
		}
	}
	shown := map[string]docs.Example{}
	for _, e := range docs.Examples() {
		shown[e.Operation] = e
		if all[e.Operation].ID == "" {
			t.Errorf("docs.Examples has %s, which is no operation", e.Operation)
		}
	}
	for id := range all {
		if shown[id].Operation == "" {
			t.Errorf("no example of %s: add one to pkg/api/docs", id)
		}
	}
	if t.Failed() {
		return
	}
	top, err := os.ReadFile("testdata/api_page.txt")
	if err != nil {
		t.Fatal(err)
	}
	refused := callAll(t, all)
	samePage(t, "../../docs/API.md", pageOfTheAPI(string(top), api, all, shown, refused))
}

// callAll runs the examples against a cell, in their order, and says how each operation refuses.
func callAll(t *testing.T, all map[string]operation) map[string][]string {
	t.Helper()
	t.Setenv(cli.EnvProject, "web")
	refused, token := map[string][]string{}, ""
	o := cell.EverythingOptions{
		Hosts: cell.SimulatedHosts(2), Listen: "127.0.0.1:0", FirstToken: func(text string) { token = text },
	}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		c := caller{t: t, ctx: ctx, address: address, token: token, tokenID: "none"}
		t.Setenv(cli.EnvToken, token)
		for _, e := range docs.Examples() {
			o := all[e.Operation]
			if e.Operation == "add-flavor" { // which answers before the queues are there
				c.typed("flavor", "add", "m1.small", "--vcpus", "1", "--memory", "2GiB", "--disk", "20GiB",
					"--capability", "disk")
			}
			status, answer := c.call(o.method, e.Path, e.Body, token)
			if want := cmp.Or(otherwise[e.Operation].status, o.succeeds()); status != want {
				t.Errorf("%s: %s %s is answered %d instead of %d: %s",
					e.Operation, o.method, e.Path, status, want, answer)
			}
			switch e.Operation {
			case "create-token":
				var made rest.NewToken
				if err := json.Unmarshal([]byte(answer), &made); err != nil {
					t.Fatal(err)
				}
				c.tokenID = string(made.ID)
			case "boot":
				c.typed("boot", "--id", docs.ID, "--name", "web-1", "--flavor", "m1.small",
					"--with", "disk=ssd", "--wait")
			case "boot-group": // the next example deletes the group, which is refused while it has members
				c.typed("delete", "front-1", "front-2", "--wait")
			case "boot-set": // a later example removes the flavor, which is refused while one of them starts
				c.typed("delete", "db-1", "db-2", "--wait")
			case "start-instance": // the next example reboots it, which is refused while it is stopped
				c.typed("start", docs.ID, "--wait")
			}
			refused[e.Operation] = c.refusals(o, e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return refused
}

type caller struct {
	t                       *testing.T
	ctx                     context.Context
	address, token, tokenID string
}

// typed runs a command that waits for what the example before it has asked for.
func (c caller) typed(args ...string) {
	c.t.Helper()
	if code, out, errs := typed(c.ctx, append(args, "--api", "http://"+c.address)); code != 0 {
		c.t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
	}
}

// call is answered with a status and a body; the token is shown unless it is empty.
func (c caller) call(method, path, body, token string) (int, string) {
	c.t.Helper()
	path = strings.ReplaceAll(path, "$TOKEN_ID", c.tokenID)
	r, err := http.NewRequestWithContext(c.ctx, method, "http://"+c.address+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// refusals are how an operation refuses to be called without a token, and about what is not there. Every operation of
// the API has to refuse a parameter, and a field, that there is not.
func (c caller) refusals(o operation, e docs.Example) (out []string) {
	try := func(what, path, token string) {
		if status, _ := c.call(o.method, path, e.Body, token); status >= 400 {
			out = append(out, fmt.Sprintf("%d %s", status, what))
		}
	}
	try("without a token", e.Path, "")
	bare, _, _ := strings.Cut(e.Path, "?")
	// What is put where nothing is, is made: it would be there for the examples that follow.
	if before, after, found := strings.Cut(o.path, "{"); found && o.method != http.MethodPut {
		_, after, _ = strings.Cut(after, "}")
		absent := map[string]string{"id": "6a0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d11"}
		name, _, _ := strings.Cut(o.path[len(before)+1:], "}")
		try("where it is not there", before+cmp.Or(absent[name], "absent")+after, c.token)
	}
	if !strings.HasPrefix(o.path, "/v1/") {
		return out
	}
	if status, _ := c.call(o.method, bare+"?colour=red", e.Body, c.token); status != http.StatusUnprocessableEntity {
		c.t.Errorf("%s takes a parameter that there is not: %d", o.ID, status)
	}
	if e.Body != "" {
		status, _ := c.call(o.method, e.Path, `{"colour": "red"}`, c.token)
		if status != http.StatusUnprocessableEntity {
			c.t.Errorf("%s takes a field that there is not: %d", o.ID, status)
		}
	}
	return out
}

// succeeds is the status of what was done.
func (o operation) succeeds() int {
	for status := range o.Responses {
		if n := 0; status != "default" {
			_, _ = fmt.Sscan(status, &n)
			return n
		}
	}
	return 0
}

func pageOfTheAPI(
	top string, api openAPI, all map[string]operation, shown map[string]docs.Example, refused map[string][]string,
) string {
	var out strings.Builder
	out.WriteString(preface(top))
	tags := map[string][]string{}
	for _, e := range docs.Examples() {
		tag := all[e.Operation].Tags[0]
		tags[tag] = append(tags[tag], e.Operation)
	}
	order := []string{"instances", "flavors", "capabilities", "queues", "quotas", "hosts", "access", "health"}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if !slices.Contains(order, tag) {
			order = append(order, tag)
		}
	}
	out.WriteString("| operation | call | does | needs |\n|---|---|---|---|\n")
	for _, tag := range order {
		for _, id := range tags[tag] {
			o := all[id]
			fmt.Fprintf(&out, "| [%s](#%s) | `%s %s` | %s | %s |\n",
				id, id, o.method, o.path, inTable(o.Summary), needs(id))
		}
	}
	for _, tag := range order {
		fmt.Fprintf(&out, "\n## %s\n", strings.ToUpper(tag[:1])+tag[1:])
		for _, id := range tags[tag] {
			out.WriteString(sectionOf(api, all[id], shown[id], refused[id]))
		}
	}
	return out.String()
}

// needs is the least role, and of what.
func needs(id string) string {
	switch n := auth.Operations()[id]; n.Scope {
	case auth.Public:
		return "nothing"
	case auth.SignedIn:
		return "a token"
	default:
		return fmt.Sprintf("%s of %s", n.Role, n.Scope)
	}
}

func sectionOf(api openAPI, o operation, e docs.Example, refused []string) string {
	var out strings.Builder
	out.WriteString("\n### " + o.ID + "\n\n")
	out.WriteString(wrapped(fmt.Sprintf("`%s %s`: %s. Needs: %s.", o.method, o.path, o.Summary, needs(o.ID))) + "\n\n")
	if o.Description != "" {
		for _, paragraph := range strings.Split(o.Description, "\n\n") {
			if !strings.HasPrefix(paragraph, "Needs, where callers sign in") {
				out.WriteString(wrapped(paragraph) + "\n\n")
			}
		}
	}
	body := nameOfBody(o.RequestBody.Content["application/json"].Schema.Ref)
	if len(o.Parameters) > 0 || body != "" {
		out.WriteString("| name | in | is |\n|---|---|---|\n")
		for _, p := range o.Parameters {
			must := required(p.Required && p.In != "path")
			fmt.Fprintf(&out, "| `%s`%s | %s | %s |\n", p.Name, must, p.In, inTable(p.Description))
		}
		fields := api.Components.Schemas[body]
		for _, name := range slices.Sorted(maps.Keys(fields.Properties)) {
			fmt.Fprintf(&out, "| `%s`%s | body | %s |\n", name, required(slices.Contains(fields.Required, name)),
				inTable(fields.Properties[name].Description))
		}
		out.WriteString("\n")
	}
	out.WriteString("```\n" + e.Curl(o.method, false) + "\n```\n\n")
	answered := fmt.Sprintf("Answered %d", o.succeeds())
	for _, r := range o.Responses {
		if name := nameOfBody(r.Content["application/json"].Schema.Ref); name != "" {
			answered += " with " + linked(name)
		}
	}
	if not, ok := otherwise[o.ID]; ok {
		answered += fmt.Sprintf(", and %d %s", not.status, not.where)
	}
	answered += "."
	if len(refused) > 0 {
		answered += " Refused: " + strings.Join(refused, ", ") + "."
	}
	return out.String() + wrapped(answered) + "\n"
}

// wrapped is a paragraph in lines of at most 120 columns; what is in several lines already stays as it is.
func wrapped(paragraph string) string {
	if strings.Contains(paragraph, "\n") {
		return paragraph
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(paragraph) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > 120 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return strings.Join(append(lines, line), "\n")
}

func required(yes bool) string {
	if yes {
		return ", required"
	}
	return ""
}

// preface is what holds for every operation, below the top of the page.
func preface(top string) string {
	var out strings.Builder
	out.WriteString(top)
	for k := compute.KindInternal; k <= compute.KindUnauthenticated; k++ {
		if do := doAtKind[k]; do != "" {
			fmt.Fprintf(&out, "| %d | `%s` | %s |\n", rest.NewProblem(&compute.Error{Kind: k}).Status, k, do)
		}
	}
	fmt.Fprintf(&out, "| %d | `%s` | nothing was done: too many requests; come again after `Retry-After` |\n\n",
		rest.TooMany(compute.Error{}).Status, compute.KindUnavailable)
	return out.String()
}

// doAtKind is what a program does at each kind that the API answers with.
var doAtKind = map[compute.Kind]string{
	compute.KindInternal:        "a fault of ours: report it with the `X-Request-Id`",
	compute.KindInvalid:         "mend the request by `field`, `value` and `remedy`",
	compute.KindNotFound:        "it is not there, or not for you",
	compute.KindConflict:        "it is in another state, is ambiguous, or the key was another request's",
	compute.KindForbidden:       "the role lacks ([ACCESS](ACCESS.md))",
	compute.KindUnavailable:     "nothing was done: come again after `Retry-After`",
	compute.KindTimeout:         "it is not known whether it was done: repeat it under the same id or key",
	compute.KindUnauthenticated: "sign in",
}

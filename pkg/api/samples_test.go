// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/api/docs"
)

// shown is an operation as the document shows it.
type shown struct {
	OperationID string
	Tags        []string
	Parameters  []parameter
	RequestBody *struct{}
	Security    []any
	Samples     []struct{ Lang, Label, Source string } `json:"x-codeSamples"`
}

type parameter struct {
	Name, In string
	Required bool
}

// TestEachOperationHasACommand: what the document shows of an operation is a command that a shell understands. It calls
// that operation with the parameters that it has and all that it requires, shows a token where one is needed, and sends
// JSON that the node takes. That a cell answers it as the operation says is TestPageOfTheAPI in cmd/berth.
func TestEachOperationHasACommand(t *testing.T) {
	n := newNode(t)
	var doc struct {
		Paths map[string]map[string]shown
		Tags  []struct{ Name string }
	}
	if err := json.Unmarshal(n.do("GET", "/openapi.json", nil).body, &doc); err != nil {
		t.Fatal(err)
	}
	operations, tags := map[string]bool{}, map[string]bool{}
	for _, tag := range doc.Tags {
		tags[tag.Name] = true
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			operations[op.OperationID] = true
			if len(op.Tags) != 1 || !tags[op.Tags[0]] {
				t.Errorf("%s has the tags %v, the document %v", op.OperationID, op.Tags, tags)
			}
			if len(op.Samples) != 1 || op.Samples[0].Label != "curl" {
				t.Errorf("%s has the samples %v", op.OperationID, op.Samples)
				continue
			}
			c := n.types(op.Samples[0].Source)
			if c.method != strings.ToUpper(method) || !matches(path, c.url.Path) {
				t.Errorf("%s: the command calls %s %s", op.OperationID, c.method, c.url.Path)
			}
			newNode(t).means(op, c) // one of its own: what others make or remove, in any order, it does not see
		}
	}
	for _, e := range docs.Examples() {
		if !operations[e.Operation] {
			t.Errorf("there is an example of %s, which is no operation", e.Operation)
		}
	}
}

// matches says whether a path is one of a template.
func matches(template, path string) bool {
	any := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(template), "[^/]+")
	return regexp.MustCompile("^" + any + "$").MatchString(path)
}

// means fails unless a command is a call of an operation that the node takes: it may not find what the call is about.
func (n *node) means(op shown, c command) {
	n.Helper()
	query := c.url.Query()
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required && !query.Has(p.Name) {
			n.Errorf("%s: the command leaves out %s", op.OperationID, p.Name)
		}
	}
	for name := range query {
		if !slices.ContainsFunc(op.Parameters, func(p parameter) bool { return p.In == "query" && p.Name == name }) {
			n.Errorf("%s: the command has the parameter %s, which there is not", op.OperationID, name)
		}
	}
	if signs := slices.Contains(c.headers, "Authorization: Bearer berth_x"); signs != (len(op.Security) > 0) {
		n.Errorf("%s: the command shows a token: %t", op.OperationID, signs)
	}
	if (c.body != "") != (op.RequestBody != nil) {
		n.Errorf("%s: the command sends %q", op.OperationID, c.body)
	}
	r := httptest.NewRequest(c.method, c.url.String(), strings.NewReader(c.body))
	for _, h := range c.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	switch a := n.ask(r); a.status {
	case 200, 202, 204, 404, 409:
	default:
		n.Errorf("%s: the command is answered %d: %s", op.OperationID, a.status, a.body)
	}
}

// command is what a shell makes of a call of curl.
type command struct {
	method  string
	url     *url.URL
	headers []string
	body    string
}

// types has a shell say what curl would be given.
func (n *node) types(source string) command {
	n.Helper()
	shell := exec.Command("sh", "-eu", "-c", `curl() { printf '%s\000' "$@"; }`+"\n"+source)
	shell.Env = []string{"BERTH_API=http://node", "BERTH_TOKEN=berth_x", "TOKEN_ID=t1"}
	out, err := shell.CombinedOutput()
	if err != nil {
		n.Fatalf("%s\n%v: %s", source, err, out)
	}
	c := command{method: "GET"}
	args := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-X":
			i++
			c.method = args[i]
		case "-H":
			i++
			c.headers = append(c.headers, args[i])
		case "-d":
			i++
			c.body = args[i]
			if !slices.Contains(args, "-X") {
				c.method = "POST"
			}
		default:
			if c.url, err = url.Parse(args[i]); err != nil || c.url.Host != "node" {
				n.Fatalf("%s\ncalls %q, %v", source, args[i], err)
			}
		}
	}
	if c.url == nil {
		n.Fatalf("%s\ncalls nothing", source)
	}
	return c
}

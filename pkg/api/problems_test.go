// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// document is what the node says it answers.
type document struct {
	Paths      map[string]map[string]*operation
	Components struct{ Schemas map[string]property }
}

type operation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Schema   property
	}
	RequestBody *struct {
		Content map[string]struct{ Schema property }
	}
}

type property struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Minimum    *float64
	Maximum    *float64
	Properties map[string]property
}

// bad is a request that must be refused.
type bad struct {
	what, method, target, body string
	header                     http.Header
}

// TestEveryRefusalIsAProblem walks through all operations of the document with
// all kinds of bad input. Each is answered by a document that is as the schema
// of problems says, names what is wrong and what to do, and changes nothing.
func TestEveryRefusalIsAProblem(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.has(instance(id1, "web", compute.StateActive))
	n.hears(compute.Beacon{Host: "h1"})
	n.published()
	var doc document
	if err := json.Unmarshal(n.do("GET", "/openapi.json", nil).body, &doc); err != nil {
		t.Fatal(err)
	}
	judge := newReferee()
	refused := map[int]int{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			for _, b := range doc.badRequests(path, strings.ToUpper(method), op) {
				req := httptest.NewRequest(b.method, b.target, strings.NewReader(b.body))
				req.Header = b.header
				a := n.ask(req)
				refused[a.status]++
				if what := judge.wrong(a); what != "" {
					t.Errorf("%s: %s %s %.80s: %s\n%s", b.what, b.method, b.target, b.body, what, a.body)
				}
			}
		}
	}
	if sent := n.published(); len(sent) != 0 {
		t.Errorf("something was done all the same: %v", sent)
	}
	for _, status := range []int{400, 403, 404, 413, 415, 422} {
		if refused[status] == 0 {
			t.Errorf("no %d among %v", status, refused)
		}
	}
}

// badRequests spoils an operation in all the ways its description allows.
func (d document) badRequests(path, method string, op *operation) []bad {
	asJSON := http.Header{"Content-Type": {"application/json"}}
	target := strings.NewReplacer("{id}", string(id1), "{host}", "h1", "{queue}", "m1.small", "{flavor}",
		"m1.small", "{axis}", "gpu", "{project}", "web").Replace(path)
	all := []bad{
		{"unknown query parameter", method, target + "?nonsense=1", "{}", asJSON},
	}
	if method != http.MethodGet {
		all = append(all, bad{"another origin", method, target, "{}", http.Header{"Origin": {"https://evil.example"}}})
	}
	for _, p := range op.Parameters {
		switch p.In {
		case "path":
			for _, value := range []string{"Not A Name!", strings.Repeat("x", 300), "%00", "\x00"} {
				all = append(all, bad{
					"path", method, strings.Replace(path, "{"+p.Name+"}", url.PathEscape(value), 1), valid(op),
					asJSON,
				})
			}
		case "query":
			for _, value := range spoiled(p.Schema, p.Name) {
				all = append(all, bad{
					"query", method, target + "?" + p.Name + "=" + url.QueryEscape(value), valid(op), asJSON,
				})
			}
		}
	}
	if op.RequestBody == nil {
		return all
	}
	body := d.resolve(op.RequestBody.Content["application/json"].Schema)
	for _, text := range []string{`{`, `7`, `"x"`, `[]`, `{"nonsense":1}`, "\xff\xfe", `{"a":`} {
		all = append(all, bad{"body", method, target, text, asJSON})
	}
	for _, name := range slices.Sorted(maps.Keys(body.Properties)) {
		scalar := `true`
		if body.Properties[name].Type == "boolean" {
			scalar = `7`
		}
		for _, value := range []string{`{"a":{"b":[1]}}`, `[[1]]`, scalar} {
			all = append(all, bad{"property", method, target, `{"` + name + `":` + value + `}`, asJSON})
		}
	}
	return append(all,
		bad{"too large", method, target, `{"reason":"` + strings.Repeat("x", 2<<20) + `"}`, asJSON},
		bad{"not JSON", method, target, "a: b", http.Header{"Content-Type": {"application/yaml"}}})
}

// valid is a body that would do, so that only the rest is wrong.
func valid(op *operation) string {
	switch op.OperationID {
	case "set-quota", "change-quota":
		return `{"limits":{"VCPU":1}}`
	case "create-group":
		return `{"name":"web","policy":"affinity"}`
	case "create-reservation":
		return `{"name":"web","flavor":"m1.small","for":"1h"}`
	case "set-group", "change-group":
		return `{"policy":"affinity"}`
	case "boot":
		return `{"flavor":"m1.small"}`
	case "boot-set", "boot-group":
		return `{"boots":[{"flavor":"m1.small"},{"flavor":"m1.small"}]}`
	}
	return ""
}

// spoiled are values that a parameter must not take.
func spoiled(p property, name string) []string {
	switch {
	case p.Type == "integer":
		return []string{
			"x", fmt.Sprintf("%.0f", *p.Minimum-1), fmt.Sprintf("%.0f", *p.Maximum+1), "99999999999999999999",
		}
	case p.Type == "boolean":
		return []string{"perhaps"}
	case p.Type == "array" && name == "state":
		return []string{"asleep"}
	}
	switch name {
	case "project", "host", "flavor", "id", "group", "reservation":
		return []string{"Not A Name!", strings.Repeat("x", 300), "\x00"}
	case "fields":
		return []string{"colour", ",", "id;name"}
	}
	return nil // anything is a name, and what is not known has none
}

func (d document) resolve(p property) property {
	if p.Ref == "" {
		return p
	}
	return d.Components.Schemas[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
}

// referee knows what a problem is.
type referee struct {
	registry huma.Registry
	schema   *huma.Schema
}

func newReferee() referee {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	return referee{registry, registry.Schema(reflect.TypeFor[rest.Problem](), true, "Problem")}
}

// wrong says what an answer lacks to be a refusal; empty if nothing.
func (j referee) wrong(a answer) string {
	var doc any
	if err := json.Unmarshal(a.body, &doc); err != nil {
		return err.Error()
	}
	res := &huma.ValidateResult{}
	huma.Validate(j.registry, j.schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeReadFromServer, doc, res)
	var p rest.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		return err.Error()
	}
	switch {
	case len(res.Errors) > 0:
		return fmt.Sprint("is not as the schema says: ", res.Errors)
	case a.status < 400 || a.status > 499:
		return fmt.Sprint("answered ", a.status)
	case a.header.Get("Content-Type") != "application/problem+json":
		return "content type " + a.header.Get("Content-Type")
	case p.Status != a.status || p.Title != http.StatusText(a.status) || p.Type != "urn:berth:problem:"+p.Kind ||
		p.Detail == "":
		return "incomplete"
	case p.Remedy == "":
		return "no remedy"
	case p.Field == "" && p.Kind != "forbidden":
		return "no field"
	case len(a.body) > 4<<10:
		return fmt.Sprintf("%d bytes: echoes what it was sent", len(a.body))
	}
	return ""
}

// TestNoUserDataInAProblem: what does not fit is not shown where it may be user data or a key, in sets and mixes too.
func TestNoUserDataInAProblem(t *testing.T) {
	n := newNode(t)
	n.offer()
	const secret = "#cloud-config hunter2"
	wrong := map[string][]string{}
	for _, boot := range []string{
		`"` + secret + `"`, `{"flavor":"m1.small","user_data":"` + secret + `"}`,
		`{"flavor":"m1.small","ssh_keys":"` + secret + `"}`, `{"flavor":"m1.small","ssh_keys":[7,"` + secret + `"]}`,
	} {
		set := `{"boots":[{"flavor":"m1.small"},` + boot + `]}`
		wrong["/v1/instances"] = append(wrong["/v1/instances"], boot)
		wrong["/v1/sets"] = append(wrong["/v1/sets"], set)
		wrong["/v1/groups/near/boot"] = append(wrong["/v1/groups/near/boot"], set)
		wrong["/v1/placements"] = append(wrong["/v1/placements"], boot, `{"mix":[`+boot+`]}`)
	}
	wrong["/v1/sets"] = append(wrong["/v1/sets"], `{"boots":"`+secret+`"}`)
	wrong["/v1/placements"] = append(wrong["/v1/placements"], `{"mix":"`+secret+`"}`)
	for path, bodies := range wrong {
		for _, body := range bodies {
			a := n.do("POST", path, body)
			if a.refused(422, compute.KindInvalid); strings.Contains(string(a.body), "hunter2") {
				t.Errorf("%s %s:\n%s", path, body, a.body)
			}
		}
	}
	p := n.do("POST", "/v1/sets", `{"boots":[{"flavor":7},{"flavor":"m1.small"}]}`).refused(422, compute.KindInvalid)
	if p.Value != "7" {
		t.Errorf("other values are shown: %+v", p)
	}
}

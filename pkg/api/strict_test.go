// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestStrictJSON: what two readers of JSON might take for two requests is refused,
// by the field that it is about.
func TestStrictJSON(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.published()
	for body, want := range map[string]struct{ field, message string }{
		`{"flavor":"m1.small","name":"a","name":"b"}`:              {"name", "more than once"},
		`{"flavor":"m1.small","flavor":"m1.small"}`:                {"flavor", "more than once"},
		`{"flavor":"m1.small","n\u0061me":"a","name":"b"}`:         {"name", "more than once"},
		`{"flavor":"m1.small","metadata":{"role":"a","role":"b"}}`: {"metadata.role", "more than once"},
		`{"Flavor":"m1.small"}`:                                    {"Flavor", "no field"},
		`{"flavor":"m1.small","NAME":"a"}`:                         {"NAME", "no field"},
		`{"flavor":"m1.small","name":"a","Name":"b"}`:              {"Name", "no field"},
		`{"flavor":"m1.small","userdata":"aGk="}`:                  {"userdata", "unexpected"},
		// folds to s
		`{"flavor":"m1.small","u\u017fer_data":"aGk="}`:                             {"uſer_data", "no field"},
		"{\"flavor\":\"m1.small\",\"name\":\"a\xff\"}":                              {"body", "UTF-8"},
		"{\"flavor\":\"m1.small\",\"metadata\":{\"\xc3\":\"a\",\"\xc3\x28\":\"\"}}": {"body", "UTF-8"},
		`{"flavor":"m1.small","name":"\ud83d"}`:                                     {"body", "UTF-8"},
		`{"flavor":"m1.small","name":"\ud83d\ud83d\ude00"}`:                         {"body", "UTF-8"},
		`{"flavor":"m1.small","name":"\ude00\ud83d"}`:                               {"body", "UTF-8"},
	} {
		a := n.do("POST", "/v1/instances", body)
		if a.status != 400 && a.status != 422 {
			t.Errorf("%s: answered %d %s", body, a.status, a.body)
			continue
		}
		p := a.refused(a.status, compute.KindInvalid)
		if p.Field != want.field || !strings.Contains(p.Message, want.message) || p.Remedy == "" ||
			!utf8.Valid(a.body) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	for path, body := range map[string]string{
		"/v1/capabilities":      `{"axis":"disk","values":[{"value":"ssd"},{"value":"hdd","Requires":["CUSTOM_HDD"]}]}`,
		"/v1/flavors":           `{"name":"x","resources":{"VCPU":1,"VCPU":2,"MEMORY_MB":1,"DISK_GB":1}}`,
		"/v1/hosts/h1/evacuate": `{"Fenced":true}`,
		"/v1/hosts/h1/drain":    `{"reason":"a","reason":"b"}`,
	} {
		if a := n.do("POST", path, body); a.status != 400 && a.status != 422 {
			t.Errorf("%s %s: answered %d %s", path, body, a.status, a.body)
		}
	}
	if sent := n.published(); len(sent) != 0 {
		t.Errorf("something was done all the same: %v", sent)
	}
	for _, body := range []string{
		`{"flavor":"m1.small","name":"\ud83d\ude00 \\ud83d","metadata":{"a":"","A":"\ufffd"}}`,
		`{"flavor":"m1.small","name":"😀"}`,
	} {
		into[rest.Instance](n.do("POST", "/v1/instances", body), 202)
	}
}

// TestContentTypes: a body is JSON in UTF-8, and says so or nothing.
func TestContentTypes(t *testing.T) {
	n := newNode(t)
	n.offer()
	for header, want := range map[string]int{
		"":                                      202,
		"application/json":                      202,
		"Application/JSON ; Charset=UTF-8":      202,
		`application/json;charset="utf-8"`:      202,
		"json":                                  415,
		"text/json":                             415,
		"text/plain":                            415,
		"text/xml+json":                         415,
		"application/merge-patch+json":          415,
		"application/json; charset=utf-16":      415,
		"application/json, text/plain":          415,
		"application/x-www-form-urlencoded":     415,
		"multipart/form-data; boundary=x":       415,
		"application/json\x00application/plain": 415, // two headers
	} {
		req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(plain))
		if header != "" {
			req.Header["Content-Type"] = strings.Split(header, "\x00")
		}
		a := n.ask(req)
		if a.status != want {
			t.Errorf("%q: answered %d, want %d: %s", header, a.status, want, a.body)
		}
		if want == 415 {
			if p := a.refused(415, compute.KindInvalid); !strings.Contains(p.Remedy, "application/json") {
				t.Errorf("%q: %+v", header, p)
			}
		}
	}
}

// TestStrictQuery: a query that could be read in two ways is not read at all.
func TestStrictQuery(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive))
	for query, field := range map[string]string{
		"project=default&project=web": "project",
		"project=%zz":                 "query",
		"project=web;all=true":        "query",
		"name=%ff":                    "name",
		"all=true&all=false":          "all",
	} {
		p := n.do("GET", "/v1/instances?"+query, nil).refused(422, compute.KindInvalid)
		if p.Field != field || p.Remedy == "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	n.do("DELETE", path(id1)+"?project=%zz", nil).refused(422, compute.KindInvalid)
	if sent := n.published(); len(sent) != 0 {
		t.Errorf("something was done all the same: %v", sent)
	}
	into[rest.Instances](
		n.do("GET", "/v1/instances?state=active&state=queued&id="+string(id1)+"&id="+string(id2), nil), 200,
	)
}

// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/wire/rest"
)

// FuzzJSON: a body that is taken means the same to a reader that keeps the
// first of two equal names and knows each name in one case only.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"flavor":"m1.small","name":"web"}`, `{"flavor":"m1.small","name":"db","attempts":5}`,
		`{"flavor":"a","flavor":"b"}`, `{"Flavor":"a"}`, `{"flavor":"\ud83d"}`,
		"{\"flavor\":\"\xff\"}", `{"metadata":{"a":"1","A":"2","a":"3"}}`,
		`{"with":{"gpu":"a100"},"avoid":["h1"],"deadline":"1h","user_data":"aGk="}`, `{"ſsh_keys":[]}`,
		`[1,{"a":[{"a":1,"a":2}]}]`, `"\\u12"`, `{"\u0061":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	format := JSON()
	f.Fuzz(func(t *testing.T, data []byte) {
		var doc any
		if err := format.Unmarshal(data, &doc); err == nil {
			if !utf8.Valid(data) {
				t.Fatalf("%q is no UTF-8 and taken", data)
			}
			if names, kept := namesIn(data), members(doc); names != kept {
				t.Fatalf("%q has %d names, of which %d are kept", data, names, kept)
			}
		} else if _, named := DefectIn(err.Error()); json.Valid(data) && !named {
			t.Fatalf("%q: %v", data, err)
		}
		var boot, again rest.Boot
		if format.Unmarshal(data, &boot) != nil {
			return
		}
		exact, ok := doc.(map[string]any)
		if !ok {
			return // null
		}
		known := namesOf(reflect.TypeFor[rest.Boot]())
		for name := range exact {
			if known[name] == nil {
				t.Fatalf("%q: %s is taken", data, name)
			}
		}
		text, err := json.Marshal(exact)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(boot, again); diff != "" {
			t.Fatalf("%q: %s", data, diff)
		}
	})
}

// namesIn counts the names of all objects of a document, in the text.
func namesIn(data []byte) (n int) {
	type level struct{ object, value bool } // value: a name has been read
	var in []level
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if err != nil {
			return n
		}
		top := len(in) - 1
		if top >= 0 && in[top].object && token != json.Delim('}') {
			if in[top].value = !in[top].value; in[top].value {
				n++
				continue
			}
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			in = append(in, level{object: token == json.Delim('{')})
		case json.Delim('}'), json.Delim(']'):
			in = in[:top]
		}
	}
}

// members counts the members of all objects of a document, as read.
func members(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, x := range v {
			n += members(x)
		}
	case []any:
		for _, x := range v {
			n += members(x)
		}
	}
	return n
}

// A deep document of long names is refused before a path is kept for each of its levels.
func TestDeepBodies(t *testing.T) {
	name := strings.Repeat("n", 95)
	for _, levels := range []int{mostNested, mostNested + 1, 9990} {
		data := strings.Repeat(`{"`+name+`":`, levels) + "1" + strings.Repeat("}", levels)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := findDefect([]byte(data), reflect.TypeFor[any]())
		runtime.ReadMemStats(&after)
		if (d != nil) != (levels > mostNested) {
			t.Errorf("%d levels: %v", levels, d)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 20<<20 {
			t.Errorf("%d levels take %d bytes", levels, took)
		}
	}
}

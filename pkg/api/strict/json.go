// SPDX-License-Identifier: Apache-2.0

// Package strict refuses requests that two readers could read differently: a body with a
// name given twice or in another case, text that is no UTF-8, a query with a parameter
// given twice.
package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/wire/rest"
)

// JSON reads bodies. Go's decoder takes the last of two equal names, a name in
// another case, and a replacement character for what is no UTF-8; other readers
// choose otherwise, so two of them would see two requests in one body (RFC 8259,
// section 4). All of these are refused. huma reads a body twice: as any, to compare
// it with its schema, and into its type; names are compared with the type's.
func JSON() huma.Format {
	return huma.Format{
		Marshal: huma.DefaultJSONFormat.Marshal,
		Unmarshal: func(data []byte, v any) error {
			if err := json.Unmarshal(data, v); err != nil {
				return err
			}
			if d := findDefect(data, reflect.TypeOf(v).Elem()); d != nil {
				return d
			}
			return nil
		},
	}
}

// Defect is what is wrong with a body that Go's decoder takes. huma passes errors on
// as text alone: this one as JSON, from which DefectIn reads it.
type Defect struct {
	Field   string `json:"defect"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

func (d *Defect) Error() string {
	text, err := json.Marshal(d)
	if err != nil {
		return d.Message
	}
	return string(text)
}

// DefectIn is the Defect of which a text of huma's is, if it is of one.
func DefectIn(text string) (d Defect, ok bool) {
	return d, strings.HasPrefix(text, `{"defect":`) && json.Unmarshal([]byte(text), &d) == nil
}

// Apply says it in a problem.
func (d Defect) Apply(p *rest.Problem) {
	p.Field, p.Value, p.Message, p.Remedy = d.Field, "", d.Message, d.Remedy
	p.Errors[0] = rest.Defect{Location: "body." + d.Field, Message: d.Message}
	if d.Field == "body" {
		p.Errors[0].Location = d.Field
	}
}

// findDefect finds the first defect of a document that is JSON.
func findDefect(data []byte, t reflect.Type) *Defect {
	if !utf8.Valid(data) || loneSurrogate(data) {
		return &Defect{
			Field: "body", Message: "is not valid UTF-8 throughout",
			Remedy: "send text in UTF-8; give bytes in base64, where a field takes bytes",
		}
	}
	w := walker{json.NewDecoder(bytes.NewReader(data)), 0}
	w.UseNumber()
	return w.value("", t)
}

// loneSurrogate says whether JSON escapes half of a character: \ud83d without the
// other half behind it.
func loneSurrogate(data []byte) bool {
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 {
			return false
		}
		if data = data[at+1:]; data[0] != 'u' {
			data = data[1:]
			continue
		}
		r := escaped(data)
		data = data[5:]
		switch {
		case r < 0xd800 || r > 0xdfff:
			continue
		case r >= 0xdc00 || len(data) < 6 || data[0] != '\\' || data[1] != 'u':
			return true
		}
		if low := escaped(data[1:]); low < 0xdc00 || low > 0xdfff {
			return true
		}
		data = data[6:]
	}
}

// escaped is the number in "u12ab…".
func escaped(data []byte) uint64 {
	n, err := strconv.ParseUint(string(data[1:5]), 16, 16)
	if err != nil {
		return 0 // no JSON: the decoder would have refused it
	}
	return n
}

// mostNested is how deep a document may be; ours are four levels deep. A path is kept for each level, so that of ten
// thousand, which Go's decoder takes, one request would take gigabytes.
const mostNested = 32

// walker goes through a document that is JSON.
type walker struct {
	*json.Decoder
	depth int
}

// value looks at the next value, which goes into a t; any type will do for what has
// no names of ours in it.
func (w walker) value(path string, t reflect.Type) *Defect {
	token, err := w.Token()
	if _, deeper := token.(json.Delim); deeper {
		w.depth++
	}
	switch {
	case err == io.EOF:
		return nil
	case err != nil:
		return &Defect{Field: "body", Message: "cannot be read: " + err.Error(), Remedy: "send a JSON document"}
	case w.depth > mostNested:
		return &Defect{
			Field: "body", Message: fmt.Sprintf("is nested more than %d levels deep", mostNested),
			Remedy: "leave out what no operation takes; see /docs for what they do",
		}
	case token == json.Delim('{'):
		return w.object(path, t)
	case token == json.Delim('['):
		return w.array(path, t)
	}
	return nil
}

func (w walker) array(path string, t reflect.Type) *Defect {
	for n := 0; w.More(); n++ {
		if d := w.value(path+"["+strconv.Itoa(n)+"]", element(t)); d != nil {
			return d
		}
	}
	_, _ = w.Token() // the document is JSON: it is the end of this array
	return nil
}

func (w walker) object(path string, t reflect.Type) *Defect {
	fields := namesOf(t)
	seen := map[string]bool{}
	for w.More() {
		token, _ := w.Token() // the document is JSON: it is a name
		name, _ := token.(string)
		at := strings.TrimPrefix(path+"."+name, ".")
		if seen[name] {
			return &Defect{Field: at, Message: "is given more than once", Remedy: "give it once"}
		}
		seen[name] = true
		below := element(t)
		if fields != nil {
			field, known := fields[name]
			if !known {
				return &Defect{Field: at, Message: "is no field here", Remedy: remedyForName(fields, name)}
			}
			below = field
		}
		if d := w.value(at, below); d != nil {
			return d
		}
	}
	_, _ = w.Token() // the document is JSON: it is the end of this object
	return nil
}

// remedyForName is for a name that only Go's decoder takes for one of the fields.
func remedyForName(fields map[string]reflect.Type, name string) string {
	for field := range fields {
		if strings.EqualFold(field, name) {
			return "write " + field + ": case matters"
		}
	}
	return "leave it out; see /docs for what it takes"
}

// namesOf are the names that an object for a t may have, with their types; nil if
// it may have any.
func namesOf(t reflect.Type) map[string]reflect.Type {
	t = deref(t)
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() || f.Anonymous && name == "":
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}

// element is what an array, or an object with any names, for a t has in it.
func element(t reflect.Type) reflect.Type {
	switch t = deref(t); t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem()
	}
	return reflect.TypeFor[any]()
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

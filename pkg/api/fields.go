// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// fields are the names of an instance's fields that are wanted; none means all.
// The id is always among them.
type fields []string

// parseFields reads "name,state". A name that no instance has is refused with
// those that there are.
func parseFields(text string) (fields, error) {
	if text == "" {
		return nil, nil
	}
	var known []string
	for _, f := range instanceFields {
		known = append(known, f.name)
	}
	wanted := fields{"id"}
	for _, name := range strings.Split(text, ",") {
		if !slices.Contains(known, name) {
			return nil, compute.Invalid("fields", name, "choose from "+strings.Join(known, ", "))
		}
		wanted = append(wanted, name)
	}
	return wanted, nil
}

// has says whether a field is wanted.
func (f fields) has(name string) bool { return len(f) == 0 || slices.Contains(f, name) }

// shownField is a field of an instance as it is shown.
type shownField struct {
	name  string
	index []int
	omit  func(reflect.Value) bool // says whether it is left out
}

// instanceFields are all fields, in the order in which they are shown.
var instanceFields = fieldsOf(reflect.TypeFor[rest.Instance]())

func fieldsOf(t reflect.Type) []shownField {
	var all []shownField
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := shownField{name: name, index: f.Index, omit: func(reflect.Value) bool { return false }}
		switch options {
		case "omitempty":
			s.omit = isEmpty
		case "omitzero":
			s.omit = isZero
		}
		all = append(all, s)
	}
	return all
}

// isZero is what encoding/json calls zero.
func isZero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	return v.IsZero()
}

// isEmpty is what encoding/json calls empty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.Struct, reflect.Array:
		return false
	}
	return v.IsZero()
}

// selected is an instance with only the fields that are wanted.
type selected struct {
	instance rest.Instance
	only     fields
}

// Schema is that of an instance: what is left out of it is said by the caller.
func (selected) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[rest.Instance](), true, "Instance")
}

// selectedPage is a page of them.
type selectedPage struct {
	Items []selected `json:"items"`
	Next  string     `json:"next,omitempty"`
}

// Schema is that of a page of instances.
func (selectedPage) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[rest.Instances](), true, "Instances")
}

// MarshalJSON writes the wanted fields in their order.
func (c selected) MarshalJSON() ([]byte, error) {
	if len(c.only) == 0 {
		return json.Marshal(c.instance)
	}
	var out bytes.Buffer
	instance := reflect.ValueOf(c.instance)
	for _, f := range instanceFields {
		value := instance.FieldByIndex(f.index)
		if !c.only.has(f.name) || f.omit(value) {
			continue
		}
		data, err := json.Marshal(value.Interface())
		if err != nil {
			return nil, err
		}
		out.WriteString(separator(out.Len()) + `"` + f.name + `":`)
		out.Write(data)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func separator(written int) string {
	if written == 0 {
		return "{"
	}
	return ","
}

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
	known := instanceFields()
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

// instanceFields are the names of all fields, in the order in which they are shown.
func instanceFields() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rest.Instance]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// chosen is an instance with only the fields that are wanted.
type chosen struct {
	instance rest.Instance
	only     fields
}

// Schema is that of an instance: what is left out of it is said by the caller.
func (chosen) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[rest.Instance](), true, "Instance")
}

// chosenPage is a page of them.
type chosenPage struct {
	Items []chosen `json:"items"`
	Next  string   `json:"next,omitempty"`
}

// Schema is that of a page of instances.
func (chosenPage) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[rest.Instances](), true, "Instances")
}

// MarshalJSON writes the wanted fields in their order.
func (c chosen) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(c.instance)
	if err != nil || len(c.only) == 0 {
		return data, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, name := range instanceFields() {
		value, ok := all[name]
		if !ok || !c.only.has(name) {
			continue
		}
		out.WriteString(separator(out.Len()) + `"` + name + `":`)
		out.Write(value)
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

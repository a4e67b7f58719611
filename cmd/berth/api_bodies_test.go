// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// openAPI is what the pages need of the API's own document.
type openAPI struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

// schema is a kind of value: of a body, or of a field.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        any               // a word, or several
	Items       *schema           // of an array
	Additional  json.RawMessage   `json:"additionalProperties"` // a schema, or whether any field is taken
	Properties  map[string]schema // of a body
	Required    []string
	Enum        []any
	Format      string
	Encoding    string `json:"contentEncoding"`
	Description string
}

func readOpenAPI(t *testing.T) (api openAPI) {
	t.Helper()
	text, err := os.ReadFile("../../pkg/api/testdata/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &api)
	}
	if err != nil || len(api.Paths) < 20 || len(api.Components.Schemas) < 40 {
		t.Fatalf("%d paths, %d bodies: %v", len(api.Paths), len(api.Components.Schemas), err)
	}
	return api
}

// TestPageOfBodies: docs/API-BODIES.md has every body of the OpenAPI document with its fields; BERTH_UPDATE=1 writes
// it.
func TestPageOfBodies(t *testing.T) {
	api := readOpenAPI(t)
	var out strings.Builder
	out.WriteString("# Bodies of the API\n\n" + wrapped("For engineers whose program reads what Berth answers: the fields of "+
		"each body, by its name in [API](API.md), made from the API's own document (`make reference`). Most fields are left "+
		"out where they are empty, and a later version may have more.") + "\n")
	for _, name := range slices.Sorted(maps.Keys(api.Components.Schemas)) {
		body := api.Components.Schemas[name]
		fmt.Fprintf(&out, "\n## %s\n\n", name)
		if body.Description != "" {
			out.WriteString(wrapped(body.Description) + "\n\n")
		}
		out.WriteString("| field | type | is |\n|---|---|---|\n")
		for _, field := range slices.Sorted(maps.Keys(body.Properties)) {
			f := body.Properties[field]
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", field, f.kind(), inTable(f.Description))
		}
	}
	samePage(t, "../../docs/API-BODIES.md", out.String())
}

// kind is what a value is, in words; a body is linked to.
func (s schema) kind() string {
	switch {
	case s.Ref != "":
		name := nameOfBody(s.Ref)
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case len(s.Enum) > 0:
		var words []string
		for _, word := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", word))
		}
		return strings.Join(words, ", ")
	case s.Format == "date-time":
		return "time, RFC 3339"
	case s.Encoding != "":
		return s.Encoding
	}
	var of schema
	if json.Unmarshal(s.Additional, &of) == nil && of.Type != nil {
		return "map of " + of.kind()
	}
	if s.Type == nil {
		return "any"
	}
	return fmt.Sprint(s.Type)
}

// nameOfBody is the name at the end of a reference.
func nameOfBody(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// linked is a body's name as a link to its fields.
func linked(name string) string {
	return fmt.Sprintf("[%s](API-BODIES.md#%s)", name, strings.ToLower(name))
}

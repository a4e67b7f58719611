// Package config reads a daemon's settings: first the defaults the caller has
// filled in, then a YAML file, then the environment. What is not a setting is
// refused by name and line, so that a misspelt key never goes unnoticed.
//
// It stands on the YAML parser alone and not on a configuration framework:
// those merge into maps first, and a map no longer knows the line.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/compute"
)

// Load fills target, a pointer to a struct with yaml tags that holds the
// defaults, from the file and then from the environment; an empty path means no
// file. Whether the values make sense is for the caller to check.
func Load(path string, lookup func(string) (string, bool), target any) error {
	if path != "" {
		data, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return compute.NotFound("config", path, "berth config sample shows one with every setting")
		case err != nil:
			return &compute.Error{Op: "read config", Kind: compute.KindInvalid, Field: "config", Value: path, Message: "cannot be read", Cause: err}
		}
		if err := Parse(path, data, target); err != nil {
			return err
		}
	}
	return Env(lookup, target)
}

// Parse fills target from one YAML document; name says in errors where it is
// from. What the document leaves out stays as it was.
func Parse(name string, data []byte, target any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return unreadable(name, err, target)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return compute.Invalid("config", name, "give one document: there is a second one after ---")
	}
	if err := known(name, "", document.Content[0], reflect.TypeOf(target)); err != nil {
		return err
	}
	if err := document.Decode(target); err != nil {
		return unreadable(name, err, target)
	}
	return nil
}

// known refuses the first key that no field takes.
func known(name, path string, node *yaml.Node, t reflect.Type) error {
	t = base(t)
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if t.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode {
		for _, item := range node.Content {
			if err := known(name, path, item, t.Elem()); err != nil {
				return err
			}
		}
	}
	if t.Kind() != reflect.Struct || node.Kind != yaml.MappingNode {
		return nil
	}
	fields := fieldsOf(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		at := join(path, key.Value)
		field, ok := fields[key.Value]
		if !ok {
			return unknownKey(name, at, key, path, fields)
		}
		if err := known(name, at, node.Content[i+1], field.Type); err != nil {
			return err
		}
	}
	return nil
}

func unknownKey(name, at string, key *yaml.Node, path string, fields map[string]reflect.StructField) error {
	e := compute.Invalid("key", at, "known here: "+strings.Join(namesOf(fields), ", "))
	if near := nearest(key.Value, namesOf(fields)); near != "" {
		e.Remedy = "did you mean " + join(path, near) + "?"
	}
	e.Message = fmt.Sprintf("%s line %d: there is no such setting", name, key.Line)
	return e
}

// mismatch is how the YAML parser says that a value has the wrong type.
var mismatch = regexp.MustCompile("line ([0-9]+): cannot unmarshal (!!\\w+)(?: `(.*)`)? into (.+)$")

// unreadable says what the YAML parser found wrong, in the words of a person
// who writes a file and not a program.
func unreadable(name string, err error, target any) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) && len(wrong.Errors) > 0 {
		text = wrong.Errors[0]
	}
	e := &compute.Error{Kind: compute.KindInvalid, Field: "config", Value: name, Message: text}
	m := mismatch.FindStringSubmatch(text)
	if m == nil {
		return e
	}
	if t, ok := typesOf(reflect.TypeOf(target), map[string]reflect.Type{})[m[4]]; ok {
		e.Field, e.Value = "value", m[3]
		e.Message = fmt.Sprintf("%s line %s: give %s", name, m[1], nounOf(t))
	}
	return e
}

// nounOf is what to write for a value of this type.
func nounOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration with its unit, as in 15s or 10m"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list, as in [a, b]"
	case reflect.Map:
		return "a mapping, as in {VCPU: 16}"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Struct:
		return "a section of settings"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

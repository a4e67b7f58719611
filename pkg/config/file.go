// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/compute"
)

// parse fills the settings from one YAML document; name says in errors where it
// is from. What the document leaves out, or leaves empty, stays as it was.
func (l *Loaded) parse(name string, data []byte, root reflect.Value) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		l.problem(&compute.Error{
			Kind: compute.KindInvalid, Field: "config", Value: name,
			Message: strings.TrimPrefix(err.Error(), "yaml: "),
		})
		return
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		l.problem(compute.Invalid("config", name, "give one document: there is a second one after ---"))
		return
	}
	l.node(name, "", document.Content[0], root)
}

// node fills v, and all below it, from a node of the document. A list is
// replaced as a whole, and so is a mapping of values.
func (l *Loaded) node(name, path string, node *yaml.Node, v reflect.Value) {
	line := node.Line
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return
	}
	switch {
	case v.Kind() == reflect.Struct && node.Kind == yaml.MappingNode:
		l.section(name, path, node, v)
		return
	case sections(v.Type()) && node.Kind == yaml.SequenceNode:
		fresh := reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content))
		for i, item := range node.Content {
			l.node(name, path, item, fresh.Index(i))
		}
		v.Set(fresh)
	default:
		if v.Kind() == reflect.Struct || sections(v.Type()) || !decode(node, v) {
			l.unreadable(fmt.Sprintf("%s line %d", name, line), path, node.Value, v.Type())
			return
		}
	}
	l.from(path, Source{Kind: File, Name: name, Line: line})
}

// section fills the fields that a mapping names.
func (l *Loaded) section(name, path string, node *yaml.Node, v reflect.Value) {
	fields, seen := fieldsOf(v.Type()), map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			l.problem(&compute.Error{
				Kind: compute.KindInvalid, Field: "key", Value: at,
				Message: fmt.Sprintf("%s line %d: it is in line %d already", name, key.Line, first),
			})
			continue
		}
		seen[key.Value] = key.Line
		f, ok := named(fields, key.Value)
		if !ok && l.part && path == "" {
			continue
		}
		if !ok {
			l.problem(noSuch(fmt.Sprintf("%s line %d", name, key.Line), path, key.Value, namesOf(fields)))
			continue
		}
		l.node(name, at, value, v.Field(f.index))
	}
}

// unreadable refuses a value of the wrong type.
func (l *Loaded) unreadable(where, path, value string, t reflect.Type) {
	if s, ok := l.byKey[path]; ok {
		s.broken = true
		if s.Secret {
			value = Masked
		}
	}
	l.problem(&compute.Error{
		Kind: compute.KindInvalid, Field: orWord(path, "config"), Value: value,
		Message: where + ": give " + nounOf(t),
	})
}

// from notes where a setting is from; what is inside a list is no setting of
// its own.
func (l *Loaded) from(path string, source Source) {
	if s, ok := l.byKey[path]; ok {
		s.Source, s.broken = source, false
	}
}

// noSuch refuses a key that is no setting, and says what may have been meant.
func noSuch(where, path, word string, names []string) error {
	e := compute.Invalid("key", join(path, word), "known here: "+strings.Join(names, ", "))
	if near := nearest(word, names); near != "" {
		e.Remedy = "did you mean " + join(path, near) + "?"
	}
	e.Message = where + ": there is no such setting"
	return e
}

// decode reads one value, and leaves v as it was if it cannot.
func decode(node *yaml.Node, v reflect.Value) bool {
	fresh := reflect.New(v.Type())
	if err := node.Decode(fresh.Interface()); err != nil || !whole(node, v.Type()) {
		return false // the caller says what to give instead
	}
	v.Set(fresh.Elem())
	return true
}

// whole says that no decimal is where a whole number belongs, also inside of a
// list or a mapping: yaml cuts it without a word. The node was decoded before,
// so it does not contain itself.
func whole(node *yaml.Node, t reflect.Type) bool {
	switch node.Kind {
	case yaml.AliasNode:
		return whole(node.Alias, t)
	case yaml.ScalarNode:
		return node.ShortTag() != "!!float" || t.Kind() < reflect.Int || t.Kind() > reflect.Uint64
	}
	if t.Kind() == reflect.Map || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for i, child := range node.Content {
		isKey := node.Kind == yaml.MappingNode && i%2 == 0
		if !isKey && !whole(child, t) {
			return false
		}
	}
	return true
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// field is one key of a section.
type field struct {
	name   string
	index  int
	secret bool
}

// fieldsOf is what a section has, in the order of the struct.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		out = append(out, field{
			name: orWord(name, strings.ToLower(f.Name)), index: i, secret: f.Tag.Get("secret") == "true",
		})
	}
	return out
}

func named(fields []field, name string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

func namesOf(fields []field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

// sections says whether a setting is a list of sections.
func sections(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// nounOf is what to write in a file for a value of this type.
func nounOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration with its unit, as in 15s or 10m"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list, as in [a, b]"
	case reflect.Map:
		return "a mapping to whole numbers, as in {VCPU: 16}"
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

// textNoun is what to write in a variable or on the command line.
func textNoun(t reflect.Type) string {
	switch {
	case sections(t):
		return "it in a file: a list of sections has no other form"
	case t.Kind() == reflect.Slice:
		return "a list, as in a,b"
	case t.Kind() == reflect.Map:
		return "a mapping to whole numbers, as in VCPU=16,MEMORY_MB=65536"
	}
	return nounOf(t)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nearest is the name that was probably meant: at most two letters away, and
// less than half of the word.
func nearest(word string, names []string) string {
	best, distance := "", min(3, len(word)/2+1)
	for _, n := range names {
		if d := edits(word, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

// edits counts the letters to add, drop or change from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

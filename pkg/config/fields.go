package config

import (
	"reflect"
	"slices"
	"strings"
)

func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// fieldsOf is a struct's settings by their names in the file.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case strings.Contains(options, "inline"):
			for n, inner := range fieldsOf(base(f.Type)) {
				out[n] = inner
			}
		case name == "":
			out[strings.ToLower(f.Name)] = f
		default:
			out[name] = f
		}
	}
	return out
}

func namesOf(fields map[string]reflect.StructField) []string {
	var out []string
	for n := range fields {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
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

// typesOf collects the types a setting may have, by their names in the YAML
// parser's errors.
func typesOf(t reflect.Type, into map[string]reflect.Type) map[string]reflect.Type {
	t = base(t)
	if _, seen := into[t.String()]; seen {
		return into
	}
	into[t.String()] = t
	switch t.Kind() {
	case reflect.Struct:
		for _, f := range fieldsOf(t) {
			typesOf(f.Type, into)
		}
	case reflect.Slice, reflect.Map:
		typesOf(t.Elem(), into)
	}
	return into
}

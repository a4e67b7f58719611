// SPDX-License-Identifier: Apache-2.0

// Package config reads a daemon's settings: the defaults that the caller has
// filled in, over them a YAML file, over that the environment, over that what
// the command line sets. It knows where every value is from, refuses what is no
// setting by its name and place, and finds all that is wrong at once.
//
// It stands on the YAML parser alone and not on a configuration framework; why
// is in docs/decisions/0016.
package config

import (
	"errors"
	"io/fs"
	"os"
	"reflect"

	"github.com/berth-project/berth/pkg/compute"
)

// From says what is read, each over the one before it.
type From struct {
	File    string   // a YAML file; empty: none
	Environ []string // NAME=value, as os.Environ gives them
	Set     []string // key=value, as --set gives them
	Others  []string // variables that are not settings and not mistaken ones either
	Part    bool     // the file may have other sections: they are left alone
}

// Loaded is what was read: every setting with its source, and what is wrong.
type Loaded struct {
	// Warnings are for a person to read: variables that look like mistakes.
	Warnings []string

	settings []*Setting
	byKey    map[string]*Setting
	problems Problems
	part     bool
}

// Setting is one value and where it is from.
type Setting struct {
	Key    string // as in the file, with dots: kafka.brokers
	Secret bool   // Value is masked
	Source Source

	value  reflect.Value
	broken bool // what its source says cannot be read
}

// Masked stands for a secret that is set.
const Masked = "********"

// Value is what the setting is now; of a secret only whether there is one.
func (s Setting) Value() any {
	if s.Secret && !s.value.IsZero() {
		return Masked
	}
	return s.value.Interface()
}

// Load fills target, a pointer to a struct with yaml tags that holds the
// defaults. A field tagged secret:"true" is never shown. The target is complete
// only if Err is nil; whether the values make sense is the caller's to check.
func Load(target any, from From) *Loaded {
	l := &Loaded{byKey: map[string]*Setting{}, part: from.Part}
	root := reflect.ValueOf(target).Elem()
	l.enter("", root)
	if from.File != "" {
		l.file(from.File, root)
	}
	l.env(from.Environ, from.Others)
	for _, text := range from.Set {
		l.set(text)
	}
	return l
}

// enter lists the settings of a section, in the order of its fields.
func (l *Loaded) enter(path string, v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		key, field := join(path, f.name), v.Field(f.index)
		if field.Kind() == reflect.Struct {
			l.enter(key, field)
			continue
		}
		s := &Setting{Key: key, Secret: f.secret, Source: Source{Kind: Default}, value: field}
		l.settings = append(l.settings, s)
		l.byKey[key] = s
	}
}

func (l *Loaded) file(path string, root reflect.Value) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.problem(compute.NotFound("config", path, "berth config sample shows one with every setting"))
	case err != nil:
		l.problem(&compute.Error{
			Op: "read config", Kind: compute.KindInvalid, Field: "config", Value: path,
			Message: "cannot be read", Cause: err,
		})
	default:
		l.parse(path, data, root)
	}
}

// Settings are all there are, in the order of the struct.
func (l *Loaded) Settings() []Setting {
	out := make([]Setting, len(l.settings))
	for i, s := range l.settings {
		out[i] = *s
	}
	return out
}

// Err is all that is wrong: with what was read, and what the caller's own
// checks found, joined in any depth. Each of these is told where its value is
// from. nil if nothing is.
func (l *Loaded) Err(checks error) error {
	all := l.problems
	for _, err := range flatten(checks) {
		s := l.byKey[keyOf(err)]
		switch {
		case s == nil:
			all = append(all, err)
		case s.broken: // a default was checked in its place
		case s.Source.Kind == Default:
			all = append(all, err)
		default:
			all = append(all, &placed{s.Source, err})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (l *Loaded) problem(err error) { l.problems = append(l.problems, err) }

// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Kind is what kind of place a value is from.
type Kind string

// The kinds, each over the one before it.
const (
	Default Kind = "default"
	File    Kind = "file"
	Env     Kind = "env"
	Flag    Kind = "flag"
)

// Source is where a value is from.
type Source struct {
	Kind Kind
	Name string // the file, the variable, the flag
	Line int    // of a file
}

// String is the source for a person: "default", "api.yaml:7", "env BERTH_LISTEN",
// "flag --set".
func (s Source) String() string {
	switch s.Kind {
	case File:
		return fmt.Sprintf("%s:%d", s.Name, s.Line)
	case Env, Flag:
		return string(s.Kind) + " " + s.Name
	}
	return string(s.Kind)
}

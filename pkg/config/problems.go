// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Problems is everything that is wrong, in the order in which it was found.
type Problems []error

// Error is the one problem, or all of them in lines of their own.
func (p Problems) Error() string {
	if len(p) == 1 {
		return p[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems with the settings", len(p))
	for _, err := range p {
		b.WriteString("\n  " + err.Error())
	}
	return b.String()
}

// Unwrap lets errors.Is and errors.As look into each.
func (p Problems) Unwrap() []error { return p }

// All is err as single problems.
func All(err error) []error { return flatten(err) }

// flatten takes joined errors apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

// At says of which setting a value's own check speaks. nil stays nil.
func At(key string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*compute.Error); ok && strings.HasSuffix("."+key, "."+e.Field) {
		again := *e
		again.Field = key
		return &again
	}
	return &keyed{key, err}
}

// keyed is a problem of a setting that does not name it.
type keyed struct {
	key string
	err error
}

func (k *keyed) Error() string { return k.key + ": " + k.err.Error() }
func (k *keyed) Unwrap() error { return k.err }

// placed is a problem of a value with the place it is from.
type placed struct {
	source Source
	err    error
}

func (p *placed) Error() string { return fmt.Sprintf("%v (%s)", p.err, p.source) }
func (p *placed) Unwrap() error { return p.err }

// keyOf is the setting that a problem speaks of.
func keyOf(err error) string {
	var k *keyed
	if errors.As(err, &k) {
		return k.key
	}
	var e *compute.Error
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}

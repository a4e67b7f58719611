// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// The labels of an instance are its metadata: names and values that people choose, that lists select by, that its guest
// sees, and that can be changed as long as it is there. Those of a host are said by its agent.

// Limits of the labels of a host, which are in each of its beacons.
const (
	MaxHostLabels     = 32
	MaxHostLabelsSize = 4 << 10 // bytes, names and values together
	MaxRequirements   = 16      // of a selector
)

// CheckHostLabels refuses more than a beacon should carry.
func CheckHostLabels(labels map[string]string) error {
	if _, nameless := labels[""]; nameless {
		return errNameless("labels")
	}
	sizes := labelSizes("labels", labels, MaxHostLabels, MaxHostLabelsSize)
	return checkSizes(sizes[:]...)
}

func errNameless(field string) error { return Invalid(field, "=", "give each a name") }

func labelSizes(field string, labels map[string]string, most, bytes int64) [2]size {
	n := 0
	for k, v := range labels {
		n += len(k) + len(v)
	}
	return [...]size{{Limit{field, "entries", most}, len(labels)}, {Limit{field, "bytes", bytes}, n}}
}

// Change is what is to be different of an instance that there is: its name and its metadata. What is not named stays.
type Change struct {
	Name   *string
	Set    map[string]string // of the metadata: added, or in place of what is there
	Remove []string          // of the metadata, by name; what is not there is passed over
}

// Check refuses a change that can never be right.
func (c Change) Check() error {
	if c.Name == nil && len(c.Set) == 0 && len(c.Remove) == 0 {
		return Invalid("change", "", "say what is to change: name, or metadata")
	}
	if _, nameless := c.Set[""]; nameless {
		return errNameless("metadata")
	}
	for _, name := range c.Remove {
		if _, both := c.Set[name]; both {
			return Invalid("metadata", name, "set it or remove it, not both")
		}
	}
	gone := 0
	for _, name := range c.Remove {
		gone += len(name)
	}
	b := Boot{Metadata: c.Set}
	if c.Name != nil {
		b.Name = *c.Name
	}
	return checkSizes(append(b.changeable(),
		size{Limit{"metadata", "removed entries", MaxMetadata}, len(c.Remove)},
		size{Limit{"metadata", "bytes", MaxMetadataSize}, gone})...)
}

// Fingerprint tells what Change may change apart, of requests that are otherwise the same.
type Fingerprint uint64

// Fingerprint is of the name and the metadata; it is never 0.
func (b Boot) Fingerprint() Fingerprint {
	sum := sha256.New()
	part := func(s string) {
		_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) // hashes take everything
		_, _ = sum.Write([]byte(s))
	}
	part(b.Name)
	for _, name := range slices.Sorted(maps.Keys(b.Metadata)) {
		part(name)
		part(b.Metadata[name])
	}
	return Fingerprint(max(1, binary.BigEndian.Uint64(sum.Sum(nil))))
}

// changeable are the sizes of what a Change may change.
func (b Boot) changeable() []size {
	metadata := labelSizes("metadata", b.Metadata, MaxMetadata, MaxMetadataSize)
	return append(metadata[:], size{Limit{"name", "bytes", MaxNameLength}, len(b.Name)})
}

// Apply is the boot as it is after the change, or why there is no such boot: together it may be too much. What it is
// given stays as it is.
func (c Change) Apply(b Boot) (Boot, error) {
	if c.Name != nil {
		b.Name = *c.Name
	}
	if len(c.Set) > 0 || len(c.Remove) > 0 {
		now := maps.Clone(b.Metadata)
		if now == nil {
			now = map[string]string{}
		}
		maps.Copy(now, c.Set)
		for _, name := range c.Remove {
			delete(now, name)
		}
		if len(now) == 0 {
			now = nil
		}
		b.Metadata = now
	}
	return b, checkSizes(b.changeable()...)
}

// requirement is one of those of a Selector.
type requirement struct {
	name, value string
	is          relation
}

type relation uint8

const (
	equals relation = iota
	differs
	exists
	lacks
)

// Selector selects by labels: each of its requirements must hold. None selects all.
type Selector struct{ all []requirement }

// ParseSelector reads requirements as "team=a", "team!=a" (which holds of what has no team, too), "team" (it has one)
// and "!team" (it has none). What may be another than it looks like is refused: it would select more than was meant.
func ParseSelector(texts []string) (Selector, error) {
	if len(texts) > MaxRequirements {
		return Selector{}, Invalid("label", fmt.Sprint(len(texts)), fmt.Sprintf("give at most %d", MaxRequirements))
	}
	var s Selector
	for _, text := range texts {
		r := requirement{name: text, is: exists}
		if name, value, found := strings.Cut(text, "="); found {
			r = requirement{name, value, equals}
			if short, not := strings.CutSuffix(name, "!"); not {
				r.name, r.is = short, differs
			}
		} else if name, not := strings.CutPrefix(text, "!"); not {
			r = requirement{name: name, is: lacks}
		}
		if r.name == "" || strings.ContainsFunc(r.name, unicode.IsControl) || strings.TrimSpace(r.name) != r.name ||
			strings.HasPrefix(r.name, "!") || strings.HasSuffix(r.name, "!") {
			return Selector{}, Invalid("label", text,
				`give "NAME=VALUE", "NAME!=VALUE", "NAME" or "!NAME", without spaces around the name`)
		}
		s.all = append(s.all, r)
	}
	return s, nil
}

// Empty says whether it selects all.
func (s Selector) Empty() bool { return len(s.all) == 0 }

// Selects says whether something with these labels is meant.
func (s Selector) Selects(labels map[string]string) bool {
	return !slices.ContainsFunc(s.all, func(r requirement) bool {
		value, has := labels[r.name]
		switch r.is {
		case equals:
			return !has || value != r.value
		case differs:
			return has && value == r.value
		case exists:
			return !has
		default:
			return has
		}
	})
}

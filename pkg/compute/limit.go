// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"strings"
	"time"
)

// Limit is how much one part of a request may have.
type Limit struct {
	Field string // of the request
	Unit  string // what Most counts
	Most  int64
}

// size is how much a part of a request has, and may have.
type size struct {
	Limit
	got int
}

func (s size) check() error {
	if int64(s.got) <= s.Most {
		return nil
	}
	return Invalid(s.Field, fmt.Sprintf("%d %s", s.got, s.Unit), fmt.Sprintf("give at most %d %s", s.Most, s.Unit))
}

// checkSizes refuses what has too much of something.
func checkSizes(parts ...size) error {
	for _, part := range parts {
		if err := part.check(); err != nil {
			return err
		}
	}
	return nil
}

// sizes are of all parts of a boot whose size is bounded: Check looks at them, and BootLimits tells them.
func (b Boot) sizes() [11]size {
	keys := 0
	for _, k := range b.SSHKeys {
		keys += len(k)
	}
	metadata := labelSizes("metadata", b.Metadata, MaxMetadata, MaxMetadataSize)
	return [...]size{
		{Limit{"name", "bytes", MaxNameLength}, len(b.Name)},
		{Limit{"image", "bytes", MaxNameLength}, len(b.Image)},
		{Limit{"user_data", "bytes", MaxUserData}, len(b.UserData)},
		{Limit{"sealed_user_data", "bytes", MaxSealed}, len(b.Sealed)},
		{Limit{"ssh_keys", "keys", MaxSSHKeys}, len(b.SSHKeys)},
		{Limit{"ssh_keys", "bytes", MaxSSHKeysSize}, keys},
		metadata[0], metadata[1],
		{Limit{"avoid", "hosts", MaxAvoid}, len(b.Avoid)},
		{Limit{"with", "choices", MaxChoices}, len(b.With)},
		{Limit{"attempts", "attempts", MaxAttempts}, int(min(b.Attempts, 1<<20))},
	}
}

// BootLimits are the limits of one request to boot.
func BootLimits() []Limit {
	var out []Limit
	for _, s := range (Boot{}).sizes() {
		out = append(out, s.Limit)
	}
	return append(out, Limit{"deadline", "seconds", int64(MaxDeadline / time.Second)})
}

// NameRule is what names of one kind look like.
type NameRule struct {
	Of      string // "flavor"
	Most    int    // bytes
	Pattern string // a regular expression that leaves the length alone; it means the same to RE2 and to JavaScript
}

// NameRules are those of all names that a request may have.
func NameRules() []NameRule {
	known := []string{string(VCPU), string(MemoryMB), string(DiskGB)}
	own := strings.Trim(ownShape.pattern(), "^$")
	return []NameRule{
		nameShape.rule("project"), nameShape.rule("flavor"), nameShape.rule("host"),
		axisShape.rule("capability"), valueShape.rule("capability value"), traitShape.rule("trait"),
		{"resource class", len(ownPrefix) + ownShape.most, "^(?:" + strings.Join(known, "|") + "|" + ownPrefix + own + ")$"},
		{"instance id", 36, "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
	}
}

func (w shape) rule(of string) NameRule { return NameRule{of, w.most, w.pattern()} }

// pattern is the shape as a regular expression, but for its length: what fits never has two dots in a row, so a dot is
// always in front of something else.
func (w shape) pattern() string {
	dots := ""
	if w.inner&dot != 0 {
		dots = `\.?`
	}
	return "^" + w.first.class() + "(?:(?:" + dots + (w.inner &^ dot).class() + ")*" + dots + w.last.class() + ")?$"
}

// class is the set as a regular expression has it.
func (c chars) class() string {
	out := ""
	for _, kind := range []struct {
		of   chars
		text string
	}{{lower, "a-z"}, {upper, "A-Z"}, {digit, "0-9"}, {dot, "."}, {underscore, "_"}, {dash, "-"}} {
		if c&kind.of != 0 {
			out += kind.text
		}
	}
	return "[" + out + "]"
}

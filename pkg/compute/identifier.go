// SPDX-License-Identifier: Apache-2.0

package compute

type (
	// InstanceID names one requested machine for ever: a UUID in lower case,
	// chosen by the client or the API node, so that a repeated request
	// is recognised.
	InstanceID string
	// Project owns instances and is what quota is counted for. It is the
	// partition key of requests, reports and instances.
	Project string
	// HostID names a compute host. It is part of a topic name.
	HostID string
	// FlavorName names a flavor: "m1.small".
	FlavorName string
	// AxisName names a capability, that is an axis of choices: "gpu".
	AxisName string
	// AxisValue is one choice on an axis: "a100".
	AxisValue string
	// QueueName is a flavor and its choices, axes in alphabetical order:
	// "m1.small.disk-ssd.gpu-a100". It is part of a topic name.
	QueueName string
	// ClaimID is random, one for each claim an agent makes; repeats of the
	// claim keep it. Every report about a machine must show it.
	ClaimID string
	// CommandID names one user command (a reboot, say) so that it is done at
	// most once.
	CommandID string
	// JournalID is random, made when an agent's journal is created. A host that
	// comes back with another one has lost its memory.
	JournalID string
	// TopicID is Kafka's id of one incarnation of a topic, in hex. A topic that
	// was deleted and made again has another one.
	TopicID string
	// Trait is a property a host has or not: "CPU_AVX2".
	Trait string
	// PublisherName names who writes requests: an API node, or another program.
	PublisherName string
	// KeyID names a key of user data without telling it: eight hexadecimal digits.
	KeyID string
	// Trace is a W3C traceparent, or empty. It travels as a record header.
	Trace string
	// Attempt counts the tries to build an instance, from 1.
	Attempt uint32
	// Version counts the changes of one record, from 1.
	Version uint64
	// FenceEpoch orders a host's claims and the words that it is dead: one more
	// than the offset of a "fenced" in the host's stream, so it only ever rises,
	// without any clock. A claim carries that of the last one which its host had
	// acted on; 0: none.
	FenceEpoch uint64
)

// The shapes of names. Names are checked whenever a record is read, so without
// regular expressions: they took half the time of reading one.
var (
	nameShape = shape{
		first: lower | digit, inner: lower | digit | dot | underscore | dash, last: lower | digit, most: 64,
	}
	hostShape  = shape{first: lower | digit, inner: lower | digit | dot | dash, last: lower | digit, most: 64}
	axisShape  = shape{first: lower, inner: lower | digit, last: lower | digit, most: 32}
	valueShape = shape{first: lower | digit, inner: lower | digit | dash, last: lower | digit, most: 32}
	traitShape = shape{first: upper, inner: upper | digit | underscore, last: upper | digit | underscore, most: 255}
	ownShape   = shape{
		first: upper | digit | underscore, inner: upper | digit | underscore, last: upper | digit | underscore,
		most: 248,
	}
)

// ownPrefix begins the resource classes that operators make.
const ownPrefix = "CUSTOM_"

// shape is what a name may begin with, go on with and end with, and its most
// bytes. One of a single byte must be fit to begin and to end with. No name has
// two dots in a row.
type shape struct {
	first, inner, last chars
	most               int
}

// chars is a set of kinds of characters.
type chars uint8

const (
	lower chars = 1 << iota
	upper
	digit
	dot
	dash
	underscore
)

func kindOf(c byte) chars {
	switch {
	case 'a' <= c && c <= 'z':
		return lower
	case 'A' <= c && c <= 'Z':
		return upper
	case '0' <= c && c <= '9':
		return digit
	case c == '.':
		return dot
	case c == '-':
		return dash
	case c == '_':
		return underscore
	}
	return 0
}

func (w shape) fits(s string) bool {
	end := len(s) - 1
	if end < 0 || end >= w.most || kindOf(s[0])&w.first == 0 || kindOf(s[end])&w.last == 0 {
		return false
	}
	for i := 1; i < end; i++ {
		if kindOf(s[i])&w.inner == 0 || s[i] == '.' && s[i-1] == '.' {
			return false
		}
	}
	return true
}

// isUUID says whether s is 8-4-4-4-12 hexadecimal digits in lower case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// Check refuses an id that is not a UUID in lower case.
func (id InstanceID) Check() error {
	if isUUID(string(id)) {
		return nil
	}
	return Invalid("instance id", string(id), "give a UUID in lower case, or leave it out and one is made")
}

// Check refuses a project that could not be shown or typed.
func (p Project) Check() error {
	return match(nameShape, "project", string(p), nameRemedy)
}

// Check refuses a publisher that could not be shown or typed.
func (p PublisherName) Check() error {
	return match(nameShape, "publisher", string(p), nameRemedy)
}

// Check refuses a host that could not be part of a topic name.
func (h HostID) Check() error {
	return match(nameShape, "host", string(h), nameRemedy)
}

// CheckNew refuses besides what no agent may begin under: Kafka makes no topic for
// a_b where there is one for a.b, so such a host would hear nothing. Records may
// have such names, from agents of older versions.
func (h HostID) CheckNew() error {
	return match(hostShape, "host", string(h), hostRemedy)
}

// Check refuses a flavor name that could not be part of a topic name.
func (f FlavorName) Check() error {
	return match(nameShape, "flavor", string(f), nameRemedy)
}

// Check refuses an axis that would make queue names ambiguous: no dot, no dash.
func (a AxisName) Check() error {
	return match(axisShape, "capability", string(a), "use 1 to 32 lower-case letters and digits, a letter first")
}

// Check refuses a value that would make queue names ambiguous: no dot.
func (v AxisValue) Check() error {
	return match(valueShape, "capability value", string(v),
		"use 1 to 32 lower-case letters, digits and dashes, no dash first or last")
}

// Check refuses what is not a trait name.
func (t Trait) Check() error {
	return match(traitShape, "trait", string(t),
		"use upper-case letters, digits and underscores, as in CPU_AVX2 or CUSTOM_RACK_9")
}

const nameRemedy = "use 1 to 64 lower-case letters, digits, dots, dashes and underscores, a letter or digit " +
	"first and last"

const hostRemedy = "use 1 to 64 lower-case letters, digits, dots and dashes, a letter or digit first and last; " +
	"no underscores, for Kafka takes them for dots in the names of topics"

func match(w shape, field, value, remedy string) error {
	if w.fits(value) {
		return nil
	}
	return Invalid(field, value, remedy)
}

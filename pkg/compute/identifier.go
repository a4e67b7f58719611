package compute

import (
	"regexp"
	"strings"
)

type (
	// InstanceID names one requested machine for ever: a UUID in lower case,
	// chosen by whoever asks (client or API node), so that a repeated request
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
	// claim keep it. Whoever reports about a machine must show it.
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

var (
	uuidPattern   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	namePattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)
	axisPattern   = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)
	valuePattern  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	traitPattern  = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,254}$`)
	customPattern = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]{1,248}$`)
)

// Check refuses an id that is not a UUID in lower case.
func (id InstanceID) Check() error {
	return match(uuidPattern, "instance id", string(id), "give a UUID in lower case, or leave it out and one is made")
}

// Check refuses a project that could not be shown or typed.
func (p Project) Check() error {
	return match(namePattern, "project", string(p), nameRemedy)
}

// Check refuses a host that could not be part of a topic name.
func (h HostID) Check() error {
	return match(namePattern, "host", string(h), nameRemedy)
}

// Check refuses a flavor name that could not be part of a topic name.
func (f FlavorName) Check() error {
	return match(namePattern, "flavor", string(f), nameRemedy)
}

// Check refuses an axis that would make queue names ambiguous: no dot, no dash.
func (a AxisName) Check() error {
	return match(axisPattern, "capability", string(a), "use 1 to 32 lower-case letters and digits, a letter first")
}

// Check refuses a value that would make queue names ambiguous: no dot.
func (v AxisValue) Check() error {
	return match(valuePattern, "capability value", string(v), "use 1 to 32 lower-case letters, digits and dashes, no dash first or last")
}

// Check refuses what is not a trait name.
func (t Trait) Check() error {
	return match(traitPattern, "trait", string(t), "use upper-case letters, digits and underscores, as in CPU_AVX2 or CUSTOM_RACK_9")
}

const nameRemedy = "use 1 to 64 lower-case letters, digits, dots, dashes and underscores, a letter or digit first and last"

func match(p *regexp.Regexp, field, value, remedy string) error {
	if p.MatchString(value) && !strings.Contains(value, "..") {
		return nil
	}
	return Invalid(field, value, remedy)
}

// SPDX-License-Identifier: Apache-2.0

package compute

import "time"

// Build is a record of a queue: all an agent needs to build one instance, with
// no look-up anywhere.
type Build struct {
	Instance  InstanceID
	Project   Project
	Name      string
	Attempt   Attempt
	Queue     QueueName
	Resources Resources
	Required  []Trait
	Forbidden []Trait
	Image     string
	Metadata  map[string]string
	UserData  []byte
	Sealed    Sealed // its user data, where it is sealed; UserData is empty then
	SSHKeys   []string
	Avoid     []HostID  // the user's rule: never there
	Failed    []HostID  // earlier attempts failed there: rather not
	Deadline  time.Time // unclaimed after this, it is void
	At        time.Time // when it was published
	Trace     Trace
	// WaitUntil is until when pinned work waits on its host for room; zero: it waits for what only needs a moment.
	WaitUntil time.Time
	Group     *BuildGroup // nil: it is a member of none
	// Hold is how long a claim may have to wait for its answer, which comes when all of its set were claimed; 0: it is of no set.
	Hold time.Duration
	// Preemptible says that its machine may be taken away for other work, and TimesTaken how often it was.
	Preemptible bool
	TimesTaken  uint32
	// Parts are the builds of a set that is offered whole: one host takes all of them or none. What is above is then
	// of all together, and Instance and Attempt those of the part that leads (Instance.Leads). Empty: it is one
	// machine.
	Parts []Build
	// Placeholder says that there is no machine to make: the host holds the room for another instance.
	Placeholder bool
	In          InPlaceholder // whose room it has, on the host that has that; none: it needs room of its own
}

// Each are the machines of a build: the parts of one that is of a set, or itself.
func (b *Build) Each() []Build {
	if len(b.Parts) > 0 {
		return b.Parts
	}
	return []Build{*b}
}

// BuildGroup is what a host must know of a group to leave a member to others before it prepares anything.
type BuildGroup struct {
	Name GroupName
	Most uint32 // as many members as one host may have; 0: the rule is another
	// Until is up to when a host with as many leaves the work to others; zero: for ever.
	Until time.Time
	Full  []HostID // hosts that had as many when this was published; at most MaxFullHosts of them
}

// MaxFullHosts bounds how many hosts a build names as full. A host knows its own members besides.
const MaxFullHosts = 1000

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
}

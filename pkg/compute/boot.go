// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/base64"
	"fmt"
	"slices"
	"time"
)

// Limits of one request. They keep every record far below Kafka's limit of
// 1 MiB a batch.
const (
	MaxNameLength   = 255
	MaxQueueName    = 249       // the longest name of a topic
	MaxUserData     = 256 << 10 // bytes
	MaxSealed       = MaxUserData + 33
	MaxMetadata     = 64       // entries
	MaxMetadataSize = 16 << 10 // bytes, keys and values together
	MaxAvoid        = 64       // hosts
	MaxChoices      = 32       // axes a request may choose on
	MaxAttempts     = 20
	MaxDeadline     = 7 * 24 * time.Hour // work outlives no queue's retention

	MaxBoots = 10_000 // machines that are asked for at once: by one command, or in one question what would become of them
	MaxKinds = 64     // kinds of machines in such a question

	DefaultAttempts = 3
	DefaultDeadline = time.Hour
)

// Sealed is user data that was encrypted for one instance, in bytes that are no text: API nodes and hosts open it,
// nobody else. It is a string, and no slice, since an instance has no room for more (TestMillion of package conductor).
type Sealed string

// UserData is what a machine is handed for its first start, in bytes that need not be text. It is a string for the
// reason that Sealed is one.
type UserData string

// MarshalText is base64, as of a slice of bytes in JSON.
func (u UserData) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(u)), nil
}

// UnmarshalText reads base64.
func (u *UserData) UnmarshalText(text []byte) error {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	*u = UserData(data)
	return err
}

// Boot is what somebody asks for: one machine.
type Boot struct {
	Name         string // shown to people; need not be unique
	Flavor       FlavorName
	With         Choices // one value for each axis the request cares about
	Image        string  // how the hypervisor finds it; empty: the driver's default
	Metadata     map[string]string
	UserData     UserData
	Sealed       Sealed   // its user data, where it is sealed; UserData is empty then
	SSHKeys      []string // users who may log in: lines as in authorized_keys
	Attempts     Attempt  // most tries to build it; 0: DefaultAttempts
	OnNoCapacity NoCapacity
	Deadline     time.Duration   // how long it may wait unclaimed; 0: DefaultDeadline
	Host         HostID          // build it there and nowhere else; empty: anywhere
	Avoid        []HostID        // never build it there
	Rules        *PlacementRules // nil: none
}

// NoCapacityAfter is how long a request that does not want to wait does so.
const NoCapacityAfter = 10 * time.Second

// UnclaimedSince is since when a queued instance, or its present attempt, could have been claimed.
func (i *Instance) UnclaimedSince() time.Time {
	if i.PublishAt.IsZero() {
		return i.ChangedAt
	}
	return i.PublishAt
}

// NoCapacity is what shall happen when no host takes the work.
type NoCapacity uint8

// What a request can want when no host takes it.
const (
	WaitForCapacity NoCapacity = iota // until the deadline
	FailAtOnce                        // after NoCapacityAfter unclaimed
)

var noCapacityNames = [...]string{"wait", "fail"}

// String is the value's name on the command line.
func (n NoCapacity) String() string { return name(noCapacityNames[:], n, "on_no_capacity") }

// NoCapacities are all of them.
func NoCapacities() (all []NoCapacity) {
	for n := range noCapacityNames {
		all = append(all, NoCapacity(n))
	}
	return all
}

// ParseNoCapacity reads "wait" or "fail"; empty is wait.
func ParseNoCapacity(s string) (NoCapacity, error) {
	switch s {
	case "", "wait":
		return WaitForCapacity, nil
	case "fail":
		return FailAtOnce, nil
	}
	return 0, Invalid("on_no_capacity", s, `give "wait" or "fail"`)
}

// DropUserData forgets it, sealed or not: nobody will need it again.
func (b *Boot) DropUserData() { b.UserData, b.Sealed = "", "" }

// WithDefaults fills in what the request left open.
func (b Boot) WithDefaults() Boot {
	if b.Attempts == 0 {
		b.Attempts = DefaultAttempts
	}
	if b.Deadline == 0 {
		b.Deadline = DefaultDeadline
	}
	return b
}

// Check refuses a request that can never be right, whatever the catalog says.
func (b Boot) Check() error {
	if err := b.Flavor.Check(); err != nil {
		return err
	}
	for axis, value := range b.With {
		if err := axis.Check(); err != nil {
			return err
		}
		if err := value.Check(); err != nil {
			return err
		}
	}
	if b.Host != "" {
		if err := b.Host.Check(); err != nil {
			return err
		}
	}
	for _, h := range b.Avoid {
		if err := h.Check(); err != nil {
			return err
		}
	}
	if g := b.Group(); g != "" {
		if err := g.Check(); err != nil {
			return err
		}
	}
	if err := b.Priority().Check(); err != nil {
		return err
	}
	if err := b.checkTaker(); err != nil {
		return err
	}
	if err := b.checkPreemptible(); err != nil {
		return err
	}
	sizes := b.sizes()
	if err := checkSizes(sizes[:]...); err != nil {
		return err
	}
	if err := checkSSHKeys(b.SSHKeys); err != nil {
		return err
	}
	return b.checkRest()
}

func (b Boot) checkRest() error {
	if b.Deadline < 0 || b.Deadline > MaxDeadline {
		return Invalid("deadline", b.Deadline.String(), "give a duration above 0 and at most "+MaxDeadline.String())
	}
	if b.OnNoCapacity > FailAtOnce {
		return Invalid("on_no_capacity", b.OnNoCapacity.String(), `give "wait" or "fail"`)
	}
	if len(b.UserData) > 0 && len(b.Sealed) > 0 {
		return Invalid("sealed_user_data", fmt.Sprintf("%d bytes", len(b.Sealed)), "give user data once, sealed or not")
	}
	if slices.Contains(b.Avoid, b.Host) && b.Host != "" {
		return Invalid("avoid", string(b.Host), "the request asks for this very host")
	}
	return nil
}

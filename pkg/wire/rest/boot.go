// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// DefaultProject is the project of an instance if the request names none.
const DefaultProject compute.Project = "default"

// Boot asks for one machine.
type Boot struct {
	ID           compute.InstanceID      `json:"id,omitempty" doc:"A UUID in lower case. A repeated request with the same id changes nothing; left out, one is made." example:"5f0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d11"`
	Project      compute.Project         `json:"project,omitempty" doc:"Whose instance it is; left out, the project of the query, else \"default\"." example:"default"`
	Name         string                  `json:"name,omitempty" doc:"Shown to people; need not be unique. At most 255 bytes." example:"web-1"`
	Flavor       compute.FlavorName      `json:"flavor" doc:"The size of the machine." example:"m1.small"`
	With         compute.Choices         `json:"with,omitempty" doc:"One value for each capability the request cares about, as in {\"gpu\": \"a100\"}."`
	Image        string                  `json:"image,omitempty" doc:"How the hypervisor finds the image; left out, the driver's default."`
	Metadata     map[string]string       `json:"metadata,omitempty" doc:"Its labels: names and values that lists select by, and that its guest sees. At most 64 entries, 16 KiB together."`
	UserData     []byte                  `json:"user_data,omitempty" doc:"For the machine's first start, in base64; at most 256 KiB decoded."`
	SSHKeys      []string                `json:"ssh_keys,omitempty" nullable:"false" doc:"Who may log in: public keys, as the lines of authorized_keys. At most 64, 32 KiB together."`
	Attempts     compute.Attempt         `json:"attempts,omitempty" doc:"Most tries to build it, up to 20; 0 or left out: 3."`
	Deadline     Duration                `json:"deadline,omitempty" doc:"How long it may wait unclaimed, up to 168h; left out: 1h." example:"10m0s"`
	OnNoCapacity string                  `json:"on_no_capacity,omitempty" enum:"wait,fail" doc:"Whether to wait until the deadline when no host takes it, or to fail after 10 s."`
	Host         compute.HostID          `json:"host,omitempty" doc:"Build it there and nowhere else."`
	Avoid        []compute.HostID        `json:"avoid,omitempty" nullable:"false" doc:"Never build it on these hosts."`
	Group        compute.GroupName       `json:"group,omitempty" doc:"The group of the project that it is to be a member of: a rule about where members may run beside each other." example:"web"`
	Priority     string                  `json:"priority,omitempty" enum:"low,normal,high" doc:"Its class; left out: normal. Where there is not room for all that waits, hosts serve higher ones first, but for what has waited for long." example:"high"`
	Preemptible  *Preemptible            `json:"preemptible,omitempty" doc:"Its machine may be taken away so that work of the classes above finds room; left out: it may not. Its priority is low then, and is given as that or not at all. Not in a set."`
	Reservation  compute.ReservationName `json:"reservation,omitempty" example:"nightly" doc:"The reservation of the project whose room it gets: it starts there once a host holds that, and the reservation has begun. Flavor and with are those of the reservation; not beside host, avoid, group, priority or preemptible."`
}

// Preemptible says what becomes of a machine that is taken away.
type Preemptible struct {
	Then  string    `json:"then" enum:"delete,requeue" doc:"What becomes of it: it is deleted, or waits in its queue again and is built anew. Not requeue beside host, or beside on_no_capacity fail."`
	Grace *Duration `json:"grace,omitempty" doc:"How long its guest has to stop, from the notice on, up to 10m; left out: 30s." example:"1m0s"`
}

// BootSet asks for several machines of one project, all or none.
type BootSet struct {
	Boots []Boot `json:"boots" nullable:"false" minItems:"2" maxItems:"100" doc:"What to boot."`
}

// InstanceChange is what is to be different of an instance, as a JSON merge patch.
type InstanceChange struct {
	Name     *string            `json:"name,omitempty" doc:"The new name; left out, it stays. At most 255 bytes." example:"web-2"`
	Metadata map[string]*string `json:"metadata,omitempty" doc:"Entries to add or to replace; null takes one out. What is not named stays. At most 64 entries, 16 KiB together."`
}

// Compute is the change in the words of package compute.
func (c InstanceChange) Compute() compute.Change {
	out := compute.Change{Name: c.Name}
	for _, name := range slices.Sorted(maps.Keys(c.Metadata)) {
		value := c.Metadata[name]
		if value == nil {
			out.Remove = append(out.Remove, name)
			continue
		}
		if out.Set == nil {
			out.Set = map[string]string{}
		}
		out.Set[name] = *value
	}
	return out
}

// FromChange is the body that asks for c.
func FromChange(c compute.Change) InstanceChange {
	out := InstanceChange{Name: c.Name}
	if len(c.Set)+len(c.Remove) > 0 {
		out.Metadata = map[string]*string{}
	}
	for name, value := range c.Set {
		out.Metadata[name] = &value
	}
	for _, name := range c.Remove {
		out.Metadata[name] = nil
	}
	return out
}

// Compute is the request in the words of package compute, defaults not yet
// filled in. It does not check more than reading needs; Boot.Check does.
func (b Boot) Compute() (compute.Boot, error) {
	onNoCapacity, err := compute.ParseNoCapacity(b.OnNoCapacity)
	if err != nil {
		return compute.Boot{}, err
	}
	priority, err := compute.ParsePriority(b.Priority)
	if err != nil {
		return compute.Boot{}, err
	}
	out := compute.Boot{
		Name:         b.Name,
		Flavor:       b.Flavor,
		With:         b.With,
		Image:        b.Image,
		Metadata:     b.Metadata,
		UserData:     compute.UserData(b.UserData),
		SSHKeys:      b.SSHKeys,
		Attempts:     b.Attempts,
		Deadline:     time.Duration(b.Deadline),
		OnNoCapacity: onNoCapacity,
		Host:         b.Host,
		Avoid:        b.Avoid,
		Rules:        compute.RulesOf(b.Group, compute.Set{}, priority),
	}
	if b.Preemptible != nil {
		p, err := b.Preemptible.Compute()
		if err != nil {
			return compute.Boot{}, err
		}
		if _, err := compute.ClassOf(p, priority, b.Priority != ""); err != nil {
			return compute.Boot{}, err
		}
		out.Preempt(p)
	}
	if b.Reservation != "" {
		out.Reserving(b.Reservation)
	}
	return out, nil
}

// FromBoot is the body that asks for b.
func FromBoot(p compute.Project, id compute.InstanceID, b compute.Boot) Boot {
	return Boot{
		ID:           id,
		Project:      p,
		Name:         b.Name,
		Flavor:       b.Flavor,
		With:         b.With,
		Image:        b.Image,
		Metadata:     b.Metadata,
		UserData:     []byte(b.UserData),
		SSHKeys:      b.SSHKeys,
		Attempts:     b.Attempts,
		Deadline:     Duration(b.Deadline),
		OnNoCapacity: b.OnNoCapacity.String(),
		Host:         b.Host,
		Avoid:        b.Avoid,
		Group:        b.Group(),
		Priority:     fromPriority(b.Priority()),
		Preemptible:  fromPreemptible(b.Preemptible()),
		Reservation:  b.Reservation(),
	}
}

// fromPriority shows a class; "" for the normal one.
func fromPriority(p compute.Priority) string {
	if p == compute.PriorityNormal {
		return ""
	}
	return p.String()
}

// Duration is a time.Duration that is written as "1h0m0s".
type Duration time.Duration

// String is the duration as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1h0m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote, and anything time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	if err != nil {
		return compute.Invalid("duration", string(b), "give a number with a unit, as in 90s, 10m or 1h30m")
	}
	*d = Duration(parsed)
	return nil
}

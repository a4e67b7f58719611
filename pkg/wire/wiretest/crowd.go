// SPDX-License-Identifier: Apache-2.0

// Package wiretest makes records such as a large cell has, for tests that
// measure what they cost.
package wiretest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Crowd is a cell's instances. The same number is always the same instance.
type Crowd struct {
	Projects, Queues, Hosts int
	Now                     time.Time     // all of it happened before
	State                   compute.State // of all of them; StateNone: mixed
}

// Mixed is 100 queues, and a host for every thousand of so many instances.
func Mixed(many, projects int, now time.Time) Crowd {
	return Crowd{Projects: projects, Queues: 100, Hosts: max(many/1000, 1), Now: now.Round(0).UTC()}
}

// Record is one instance as it lies in the log, in memory of its own.
func (c Crowd) Record(i int) wire.Record {
	return wire.EncodeInstance(c.Instance(i))
}

// Project is one of the projects.
func (c Crowd) Project(i int) compute.Project {
	return compute.Project(fmt.Sprintf("project-%06d", i%c.Projects))
}

// Host is one of the hosts.
func (c Crowd) Host(i int) compute.HostID { return compute.HostID(fmt.Sprintf("host-%04d", i%c.Hosts)) }

// Queue is one of the queues. Every second flavor may be had with a GPU too.
func (c Crowd) Queue(i int) compute.Queue {
	i %= c.Queues
	q := compute.Queue{
		Flavor:    compute.FlavorName(fmt.Sprintf("m1.size-%d", i/2)),
		Resources: compute.Resources{compute.VCPU: int64(1 + i/2), compute.MemoryMB: 4096, compute.DiskGB: 20},
		Required:  []compute.Trait{"CPU_AVX2"},
	}
	if i%2 == 1 {
		q.Choices = compute.Choices{"gpu": "a100"}
		q.Resources["CUSTOM_GPU_A100"] = 1
		q.Required = append(q.Required, "CUSTOM_GPU_A100")
	} else {
		q.Forbidden = []compute.Trait{"CUSTOM_GPU_A100"}
	}
	q.Name = compute.NameQueue(q.Flavor, q.Choices)
	return q
}

// Instance is one of them: seven in ten run, one in ten waits, two in ten have
// ended. Each has a name of its own and every tenth metadata; none has user data
// or keys, which cost what they are long.
func (c Crowd) Instance(i int) compute.Instance {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	q := c.Queue(r.IntN(c.Queues))
	at := c.Now.Add(-time.Duration(r.Int64N(int64(40 * time.Minute))))
	inst := compute.Instance{
		ID: uuid(r), Project: c.Project(r.IntN(c.Projects)), Version: 3, State: c.State,
		Boot: compute.Boot{
			Name: fmt.Sprintf("web-%012x", r.Uint64()>>16), Flavor: q.Flavor, With: q.Choices, Image: "ubuntu-26.04",
		}.WithDefaults(),
		Queue: q.Name, Resources: q.Resources, Required: q.Required, Forbidden: q.Forbidden,
		Attempt: 1, AcceptedAt: at, QueuedAt: at.Add(3 * time.Millisecond), Deadline: at.Add(time.Hour),
		ChangedAt: at.Add(time.Second),
	}
	if r.IntN(10) == 0 {
		inst.Boot.Metadata = map[string]string{"role": "web", "team": fmt.Sprint("team-", r.IntN(100))}
	}
	if inst.State == compute.StateNone {
		inst.State = []compute.State{
			compute.StateQueued, compute.StateStarting, compute.StateActive, compute.StateActive, compute.StateActive,
			compute.StateActive, compute.StateActive, compute.StateActive, compute.StateDeleted, compute.StateError,
		}[r.IntN(10)]
	}
	c.live(&inst, r)
	return inst
}

// live adds what the instance has lived through.
func (c Crowd) live(inst *compute.Instance, r *rand.Rand) {
	if inst.State == compute.StateQueued {
		inst.Version = 1
		return
	}
	inst.Host, inst.Claim = c.Host(r.IntN(c.Hosts)), compute.ClaimID(uuid(r))
	inst.StartingAt = inst.QueuedAt.Add(20 * time.Millisecond)
	if inst.State == compute.StateStarting {
		return
	}
	inst.ActiveAt = inst.StartingAt.Add(time.Second)
	inst.Power = compute.PowerRunning
	switch inst.State {
	case compute.StateDeleted:
		inst.Delete, inst.EndedAt, inst.Power = true, inst.ChangedAt, compute.PowerUnknown
	case compute.StateError:
		inst.Reason = &compute.Reason{
			Code: compute.HostLost, Host: inst.Host, Attempt: 1, Detail: "its host was declared dead",
		}
		inst.EndedAt, inst.Power = inst.ChangedAt, compute.PowerUnknown
	}
}

func uuid(r *rand.Rand) compute.InstanceID {
	a, b := r.Uint64(), r.Uint64()
	return compute.InstanceID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x",
		a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff))
}

// Chunk is a thousand records, as a reader would hand them over.
func (c Crowd) Chunk(from, end int) []wire.Record {
	var out []wire.Record
	for i := from; i < min(from+1000, end); i++ {
		out = append(out, c.Record(i))
	}
	return out
}

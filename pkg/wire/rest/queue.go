// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// QueueView is a queue with what is known of its work.
type QueueView struct {
	Name      compute.QueueName  `json:"name" example:"m1.small.gpu-a100"`
	Flavor    compute.FlavorName `json:"flavor"`
	With      compute.Choices    `json:"with,omitempty"`
	Priority  string             `json:"priority,omitempty" enum:"low,high" doc:"The class of its work: it is a tier of the queue without it. Absent: normal."`
	State     string             `json:"state" enum:"open,closed" doc:"closed: takes no requests, its work drains."`
	Resources compute.Resources  `json:"resources" doc:"What one machine needs of a host."`
	Required  []compute.Trait    `json:"required,omitempty" nullable:"false"`
	Forbidden []compute.Trait    `json:"forbidden,omitempty" nullable:"false"`
	Group     string             `json:"group,omitempty" doc:"The share group its waiters use."`
	Error     string             `json:"error,omitempty" doc:"Why it cannot be made or removed."`
	Queued    int                `json:"queued" doc:"Instances that wait in it, by their records."`
	Hosts     *HostCounts        `json:"hosts,omitempty" doc:"What every host is to its work, by what hosts said last."`
	Capacity  *Capacity          `json:"capacity,omitempty" doc:"How many of its machines hosts could have, by what hosts said last."`
	Advice    *QueueAdvice       `json:"advice,omitempty" doc:"What the queue manager last said; absent if it did not."`
}

// Capacity is how many machines of one kind hosts could have.
type Capacity struct {
	Room     int64 `json:"room" doc:"That could begin now."`
	Stranded int64 `json:"stranded" doc:"That could begin besides if what is free on different hosts were on one."`
	Empty    int64 `json:"empty" doc:"That there could be if hosts had no other machines."`
}

// QueueAdvice is what the queue manager last said about a queue.
type QueueAdvice struct {
	At     time.Time  `json:"at"`
	Depth  uint64     `json:"depth" doc:"Records in it that an instance waits for and no host has finished."`
	Stray  uint64     `json:"stray,omitempty" doc:"Other records in it, of instances that do not wait any more, as of the last minute: hosts take and drop them."`
	Oldest time.Time  `json:"oldest,omitzero" doc:"When the oldest of them was published."`
	Wanted uint64     `json:"wanted" doc:"How many of the eligible hosts wait on it by lot while no queue manager rings hosts, one for each record in it included. More than there are: all of them."`
	Hosts  HostCounts `json:"hosts" doc:"What became of every host, as the queue manager saw it: up to half a minute older than hosts."`
}

// FromQueue shows a queue.
func FromQueue(q compute.Queue) QueueView {
	return QueueView{
		Name: q.Name, Flavor: q.Flavor, With: q.Choices, State: q.State.String(), Resources: q.Resources,
		Required: q.Required, Forbidden: q.Forbidden, Group: q.Group, Error: q.Error,
		Priority: fromPriority(q.Priority),
	}
}

// FromAdvice shows advice.
func FromAdvice(at time.Time, a compute.QueueAdvice) *QueueAdvice {
	return &QueueAdvice{
		At: utc(at), Depth: a.Queued(), Stray: a.Stray, Oldest: utc(a.Oldest), Wanted: a.Wanted(),
		Hosts: FromHostCounts(a.Hosts),
	}
}

// Queues is a list.
type Queues struct {
	Items []QueueView `json:"items" nullable:"false"`
	Next  string      `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}

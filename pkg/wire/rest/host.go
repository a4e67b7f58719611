// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// HostView is what a host last said about itself.
type HostView struct {
	Host        compute.HostID      `json:"host"`
	State       string              `json:"state" enum:"enabled,disabled,draining,quarantined,silent" doc:"silent: not heard for a minute, or not listed any more."`
	Reason      string              `json:"reason,omitempty" doc:"Why it does not offer."`
	Totals      compute.Resources   `json:"totals" doc:"After over-commit."`
	Reserved    compute.Resources   `json:"reserved,omitempty" doc:"What the host keeps for itself."`
	Unmanaged   compute.Resources   `json:"unmanaged,omitempty" doc:"Used by machines Berth did not start."`
	Free        compute.Resources   `json:"free"`
	Largest     compute.Resources   `json:"largest,omitempty" doc:"The most that one machine may have now, where that is less than is free."`
	Traits      []compute.Trait     `json:"traits,omitempty" nullable:"false"`
	Labels      map[string]string   `json:"labels,omitempty" doc:"What its operators call it by, as its agent's settings say. Nothing is placed by them."`
	Warnings    []string            `json:"warnings,omitempty" nullable:"false" doc:"What does not keep its machines apart, and what to do."`
	Mistrusts   []string            `json:"mistrusts,omitempty" nullable:"false" doc:"Images that have failed there lately, by name: work with them is left to other hosts first. Empty: the driver's default."`
	Saving      *Saving             `json:"saving,omitempty" doc:"What it saves room for: work of one queue that has waited for long and fits no host. Other work gets what is left beside it."`
	Weigher     string              `json:"weigher" enum:"spread,pack" doc:"Whether it looks for work, and is rung, more often when it is emptier (spread) or fuller (pack)."`
	Deadline    time.Time           `json:"deadline,omitzero" doc:"When a draining host should be empty; absent: no hurry. What is left then stays."`
	Machines    uint32              `json:"machines" doc:"Ours, running or not."`
	Building    uint32              `json:"building" doc:"Taken, not yet running."`
	Waiting     []compute.QueueName `json:"waiting" nullable:"false" doc:"The queues it waits on."`
	DesiredSeen compute.Version     `json:"desired_seen,omitempty" doc:"At least the version of the last operator's wish that it has acted on."`
	Instances   map[string]int      `json:"instances,omitempty" doc:"How many instances it has by what the conductors say, by state. True at once; what the host says itself comes with its next beacon."`
	Started     time.Time           `json:"started,omitzero" doc:"When its agent began."`
	SaidAt      time.Time           `json:"said_at,omitzero" doc:"When it said this, by its own clock."`
	HeardFor    Duration            `json:"heard_ago" doc:"How long ago this node heard it; of what was written before it began, how long ago that was."`
	Signed      bool                `json:"signed" doc:"What it said carries a MAC, which conductors and queue managers check and API nodes cannot."`
}

// Saving is what a host saves room for.
type Saving struct {
	Queue compute.QueueName `json:"queue"`
	Needs compute.Resources `json:"needs" doc:"Of one machine of the queue."`
	Age   Duration          `json:"age" doc:"For how long it had saved when it said so."`
	Left  Duration          `json:"left" doc:"For how long it did still then, at most."`
}

func savingOf(s *compute.Saving) *Saving {
	if s == nil {
		return nil
	}
	return &Saving{Queue: s.Queue, Needs: s.Needs, Age: Duration(s.Age), Left: Duration(s.Left)}
}

// FromBeacon shows a beacon heard that long ago.
func FromBeacon(b *compute.Beacon, ago time.Duration) HostView {
	v := HostView{
		Host: b.Host, State: b.State.String(), Reason: b.Reason,
		Totals: b.Inventory.Totals, Reserved: b.Inventory.Reserved, Unmanaged: b.Inventory.Unmanaged,
		Free: b.Free, Largest: b.Largest, Traits: b.Inventory.Traits, Labels: b.Labels, Warnings: b.Warnings,
		Mistrusts: b.Mistrusts, Machines: b.Machines,
		Building: b.Building, Saving: savingOf(b.Saving),
		Waiting: b.Waiting, DesiredSeen: b.DesiredSeen, Deadline: utc(b.Deadline), Started: utc(b.Started),
		SaidAt:   utc(b.At),
		HeardFor: Duration(ago.Truncate(time.Millisecond)), Weigher: b.Weigher.String(),
	}
	if v.Waiting == nil {
		v.Waiting = []compute.QueueName{}
	}
	if ago > compute.SilentAfter {
		v.State = compute.HostSilent.String()
	}
	return v
}

// UnlistedHost shows a host that is not listed and has something, of which nothing was heard for so long at least.
func UnlistedHost(h compute.HostID, ago time.Duration) HostView {
	v := FromBeacon(&compute.Beacon{Host: h, Reason: "it is not listed any more"}, ago)
	v.State, v.Totals, v.Free = compute.HostSilent.String(), compute.Resources{}, compute.Resources{}
	return v
}

// Hosts is a list.
type Hosts struct {
	Items []HostView `json:"items" nullable:"false"`
	Next  string     `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}

// HostWish is what an operator wants of a host, in addition to the state.
type HostWish struct {
	Reason   string    `json:"reason,omitempty" maxLength:"255" doc:"Shown with the host."`
	Deadline time.Time `json:"deadline,omitzero" doc:"drain only: when it should be empty; absent: no hurry."`
}

// DeadHost is an operator's word that a host is dead.
type DeadHost struct {
	Fenced bool   `json:"fenced,omitempty" doc:"The host is dead for certain: it does not run now. Without it the node's own fence command has to make that certain."`
	Force  bool   `json:"force,omitempty" doc:"If the host was heard within the last 60 s, wait until it has been silent for so long, instead of refusing at once. One that goes on to be heard is refused."`
	Reason string `json:"reason,omitempty" maxLength:"255" doc:"Why, for the log."`
	By     string `json:"by,omitempty" maxLength:"255" doc:"Who says so, for the log. Nobody checks it."`
}

// HostDead says that a host's instances are on their way elsewhere, or to their
// end.
type HostDead struct {
	Host      compute.HostID     `json:"host"`
	Fence     compute.FenceEpoch `json:"fence" doc:"What the host claimed under a lower one is meant."`
	Instances map[string]int     `json:"instances" doc:"How many it had, by state, as far as this node knows; queued are those pinned to it."`
	Becomes   map[string]int     `json:"becomes,omitempty" doc:"How many of them are rebuilt on other hosts, wait (waits) for this host because they are pinned to it, are ended as errors, and are deleted."`
	Others    int                `json:"others,omitempty" doc:"How many instances of other hosts or queues end with their sets: until each of a set has run, one that is ended ends all."`
	Fates     []HostFate         `json:"fates,omitempty" nullable:"false" doc:"What becomes of each, as far as this node knows; at most 1,000, those on the host first, others last."`
}

// HostFate is what becomes of one instance of a dead host.
type HostFate struct {
	ID      compute.InstanceID `json:"id"`
	Project compute.Project    `json:"project"`
	Name    string             `json:"name,omitempty"`
	State   string             `json:"state" doc:"What it was."`
	Becomes compute.Fate       `json:"becomes" enum:"rebuilt,waits,ended,deleted"`
	Reason  compute.ReasonCode `json:"reason,omitempty" doc:"If it is ended: HostLost, PinnedHostUnavailable or SetFailed. If it is deleted with its set: SetFailed."`
	Other   bool               `json:"other,omitempty" doc:"It is not of this host, and ends with its set."`
}

// Total is how many instances are meant.
func (h HostDead) Total() (n int) {
	for _, of := range h.Instances {
		n += of
	}
	return n
}

// HostAsked says that the wish is on its way.
type HostAsked struct {
	Host    compute.HostID  `json:"host"`
	State   string          `json:"state" enum:"enabled,disabled,draining"`
	Version compute.Version `json:"version" doc:"Acted on once the host's desired_seen has reached it."`
}

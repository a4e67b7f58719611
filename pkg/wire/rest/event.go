// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// What a listener to events is told: the names of its events.
const (
	EventChange    = "change"    // an Event
	EventRemoved   = "removed"   // an Event: the record is gone, long after the instance ended
	EventPresent   = "present"   // an Event: how an instance is now
	EventPresented = "presented" // an EventsGap: all that there is was told; from here on what changes
	EventGap       = "gap"       // an EventsGap
	EventEnd       = "end"       // an EventsEnd: the last of the stream
)

// Event is one change of an instance.
type Event struct {
	ID       string             `json:"id,omitempty" doc:"The position in the log behind the change: the Last-Event-ID to go on with, at any node. Absent of what is present." example:"3:1843@9f3c21ab"`
	At       time.Time          `json:"at" doc:"When the record was written, by the log."`
	Project  compute.Project    `json:"project"`
	Instance compute.InstanceID `json:"instance"`
	Name     string             `json:"name"`
	Metadata map[string]string  `json:"metadata,omitempty" doc:"Its labels."`
	Version  compute.Version    `json:"version" doc:"Of the instance's record: one more with each change."`

	StateBefore State `json:"state_before,omitempty" doc:"Absent of a new instance, and after a gap."`
	State       State `json:"state" enum:"queued,starting,active,deleting,deleted,error" doc:"After the change. accepted and unknown are never told: no record says them."`

	HostBefore compute.HostID  `json:"host_before,omitempty" doc:"That had it, where that has changed."`
	Host       compute.HostID  `json:"host,omitempty" doc:"That has it."`
	Attempt    compute.Attempt `json:"attempt,omitempty" doc:"The current try, from 1."`

	PowerBefore string        `json:"power_before,omitempty" enum:"running,stopped,paused" doc:"Where that has changed."`
	Power       string        `json:"power,omitempty" enum:"running,stopped,paused" doc:"As the host last said."`
	Reason      *Reason       `json:"reason,omitempty" doc:"Why it ended, why an attempt did, or why it does not run, where that is news."`
	Command     *PowerCommand `json:"command,omitempty" doc:"A stop, start or reboot that was asked for with this change."`
	Answer      *PowerAnswer  `json:"answer,omitempty" doc:"How a stop, start or reboot ended with this change."`
	Notice      *Notice       `json:"notice,omitempty" doc:"Its place is taken for other work, or was, where that is news."`
	Renamed     bool          `json:"renamed,omitempty" doc:"Its name has changed."`
	NameBefore  string        `json:"name_before,omitempty" doc:"Where it has, and it had one."`
	Relabelled  bool          `json:"relabelled,omitempty" doc:"Its metadata have changed. With a filter by label it may have left what was asked for, or come into it."`
	Delete      bool          `json:"delete,omitempty" doc:"It was asked to be deleted with this change."`
}

// EventsGap says that there may have been changes which were not told.
type EventsGap struct {
	ID      string `json:"id" doc:"The position from which on all is told." example:"3:1900@9f3c21ab"`
	Why     string `json:"why,omitempty" enum:"forgotten,another-log" doc:"forgotten: this node does not have them any more, or never read them. another-log: the Last-Event-ID is of another cell, or of one that was made anew."`
	Message string `json:"message,omitempty"`
}

// EventsEnd says why a stream ends.
type EventsEnd struct {
	ID      string `json:"id,omitempty" doc:"The Last-Event-ID to go on with; absent where the present was not told to its end." example:"3:1900@9f3c21ab"`
	Why     string `json:"why" enum:"caught-up,slow,stopping,signed-out" doc:"caught-up: follow=false, and all was told. slow: you did not keep up, and what comes behind id is forgotten at this node. stopping: the node stops; others go on. signed-out: what you signed in with does not count any more, or, of a client's certificate, is to be shown anew."`
	Message string `json:"message"`
}

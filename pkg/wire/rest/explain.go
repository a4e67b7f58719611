// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Explanation says where a machine is, or why it is not placed.
type Explanation struct {
	ID           compute.InstanceID `json:"id"`
	Project      compute.Project    `json:"project"`
	Name         string             `json:"name"`
	State        State              `json:"state" enum:"accepted,queued,starting,active,deleting,deleted,error,unknown"`
	Summary      string             `json:"summary" doc:"Where it is and why, in a sentence."`
	Queue        compute.QueueName  `json:"queue,omitempty"`
	Place        *Place             `json:"place,omitempty" doc:"Where in its queue it waits, if it does."`
	Hosts        *Standings         `json:"hosts,omitempty" doc:"While it is queued: what every host is to it, by what hosts said last."`
	Failures     []Failure          `json:"failures,omitempty" nullable:"false" doc:"How earlier attempts ended."`
	Next         []NextEvent        `json:"next" nullable:"false" doc:"What happens by itself, in order."`
	YouCan       []string           `json:"you_can" nullable:"false" doc:"What its project can do."`
	OperatorsCan []string           `json:"operators_can,omitempty" nullable:"false" doc:"What operators can do; shown to them alone."`
}

// NextEvent is something that will happen by itself.
type NextEvent struct {
	At   time.Time `json:"at,omitzero" doc:"Absent: nobody knows when."`
	What string    `json:"what"`
}

// Standings is what all hosts are to one machine. Each host counts once.
type Standings struct {
	Total   uint32            `json:"total"`
	Now     uint32            `json:"now" doc:"Can take it now."`
	Later   uint32            `json:"later" doc:"Can take it once something changes there."`
	Never   uint32            `json:"never" doc:"Cannot take it, whatever becomes free there."`
	By      map[string]uint32 `json:"by" doc:"Hosts by what they are to it: fits, failed-there, mistrusts-image, full, quarantined, draining, disabled, twin, silent, lacks-key, group-rule, too-small, lacks-trait, avoided, pinned-elsewhere. What no host is, is left out."`
	Short   []Shortage        `json:"short" nullable:"false" doc:"Of what full hosts have too little free; what most of them lack comes first."`
	Traits  []UnfitTrait      `json:"traits" nullable:"false" doc:"Traits for which hosts do not do."`
	Room    int64             `json:"room" doc:"How many such machines hosts have room for now."`
	Empty   int64             `json:"empty" doc:"How many they could have if they were empty."`
	Nearest []HostStanding    `json:"nearest,omitempty" nullable:"false" doc:"The hosts that are nearest to taking it; shown to operators alone."`
	Oldest  float64           `json:"oldest_beacon_seconds" doc:"The age of the oldest beacon that counts: since this node heard it, or, if that was before it began, since it was written."`
}

// Shortage is a resource of which full hosts have too little free.
type Shortage struct {
	Class compute.ResourceClass `json:"class"`
	Hosts uint32                `json:"hosts" doc:"That have too little of it."`
	Least int64                 `json:"least" doc:"How much has to become free on the one of them that has most."`
}

// UnfitTrait is a trait for which hosts do not do.
type UnfitTrait struct {
	Trait    compute.Trait `json:"trait"`
	Hosts    uint32        `json:"hosts"`
	Required bool          `json:"required" doc:"They lack it; otherwise they have it and must not."`
}

// HostStanding is what one host is to a machine.
type HostStanding struct {
	Host     compute.HostID    `json:"host"`
	Standing string            `json:"standing" doc:"As in by."`
	Short    compute.Resources `json:"short,omitempty" doc:"full: beyond what is free there. too-small: beyond what it has."`
	Traits   []compute.Trait   `json:"traits,omitempty" nullable:"false" doc:"lacks-trait: those that it lacks, or has and must not."`
	Reason   string            `json:"reason,omitempty" doc:"disabled, draining, quarantined: why."`
	Room     int64             `json:"room,omitempty" doc:"How many such machines it has room for now."`
}

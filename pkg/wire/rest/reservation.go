// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Reservation asks for room that hosts hold for boots to come.
type Reservation struct {
	Name     compute.ReservationName `json:"name" example:"nightly" doc:"Within the project, of reservations that have not ended: 1 to 64 lower-case letters, digits, dots, dashes and underscores."`
	Flavor   compute.FlavorName      `json:"flavor" doc:"The size of the machines." example:"m1.small"`
	With     compute.Choices         `json:"with,omitempty" doc:"One value for each capability, as of a boot."`
	Count    int                     `json:"count,omitempty" minimum:"0" maximum:"100" doc:"How many machines; 0 or left out: 1."`
	From     time.Time               `json:"from,omitzero" doc:"When the first may be booted into it, at most 720h from now; left out: at once. It counts in the quota from now on."`
	For      Duration                `json:"for" example:"2h0m0s" doc:"How long it lasts: 1m to 720h."`
	Priority string                  `json:"priority,omitempty" enum:"low,normal,high" doc:"The class in which it waits for room, and of what is booted into it; left out: normal."`
}

// Compute is the request in the words of package compute, at a time.
func (v Reservation) Compute(now time.Time) (compute.Reserve, error) {
	priority, err := compute.ParsePriority(v.Priority)
	if err != nil {
		return compute.Reserve{}, err
	}
	long := time.Duration(v.For)
	switch {
	case v.Count < 0 || v.Count > compute.MaxReserved:
		return compute.Reserve{}, compute.Invalid("count", fmt.Sprint(v.Count), "give 1 to "+fmt.Sprint(compute.MaxReserved))
	case long < compute.LeastReserveTime || long > compute.MaxReserveTime:
		return compute.Reserve{}, compute.Invalid("for", long.String(),
			"give "+compute.LeastReserveTime.String()+" to "+compute.MaxReserveTime.String())
	case v.From.After(now.Add(compute.MaxReserveTime)):
		return compute.Reserve{}, compute.Invalid("from", v.From.Format(time.RFC3339),
			"give a time within "+compute.MaxReserveTime.String()+" from now")
	case !v.From.IsZero() && !v.From.Add(long).After(now):
		return compute.Reserve{},
			compute.Invalid("from", v.From.Format(time.RFC3339), "give a time from which on it is not over yet")
	}
	out := compute.Reserve{Name: v.Name, From: v.From.UTC(), Boot: compute.Boot{Flavor: v.Flavor, With: v.With}}
	if v.From.IsZero() {
		out.From = now.UTC()
	}
	out.Until = out.From.Add(long)
	out.Boot.Rules = compute.RulesOf("", compute.Set{}, priority)
	return out, nil
}

// FromReserve is the body that asks for so many.
func FromReserve(v compute.Reserve, count int) Reservation {
	out := Reservation{
		Name: v.Name, Flavor: v.Boot.Flavor, With: v.Boot.With, Count: count, From: v.From,
		Priority: fromPriority(v.Boot.Priority()),
	}
	out.For = Duration(v.Until.Sub(v.From))
	return out
}

// ReservationView is a reservation with what has become of it.
type ReservationView struct {
	Project   compute.Project         `json:"project"`
	Name      compute.ReservationName `json:"name"`
	State     string                  `json:"state" enum:"accepted,waiting,held,ended" doc:"accepted: not decided yet. waiting: some of it has no room, as of one that has not begun, or its host is silent, or a placeholder of it has ended. held: hosts hold room for all of it. ended: its time is over, it was deleted, or it was refused."`
	Reason    *Reason                 `json:"reason,omitempty" doc:"Why it was refused, or has ended. While it is waiting: that some of its placeholders have ended, so that hosts will never hold all of it; it is left out once their records are gone."`
	Flavor    compute.FlavorName      `json:"flavor"`
	With      compute.Choices         `json:"with,omitempty"`
	Queue     compute.QueueName       `json:"queue" doc:"Where its placeholders wait for hosts."`
	Priority  string                  `json:"priority,omitempty" enum:"low,high" doc:"Its class; absent: normal."`
	Resources compute.Resources       `json:"resources,omitempty" doc:"What each machine of it has."`
	Count     int                     `json:"count" doc:"For how many machines it was made."`
	Held      int                     `json:"held" doc:"For how many of them hosts hold room, taken or not. What a silent host has does not count."`
	Taken     int                     `json:"taken" doc:"How many were booted into it and have not ended."`
	Started   int                     `json:"started" doc:"How many of those are on a host or have run: they go on when it ends. What waits and never ran ends with it."`
	From      time.Time               `json:"from,omitzero" doc:"Before, nothing starts in it."`
	Until     time.Time               `json:"until,omitzero" doc:"When it ends. What was booted into it goes on."`

	Placeholders []PlaceholderView `json:"placeholders,omitempty" nullable:"false" doc:"One for each machine. In lists they are left out."`

	Refused []RefusedReservation `json:"refused,omitempty" nullable:"false" doc:"Requests for the same name that were accepted at another node at the same time, and refused since this one was first; at most 20, the newest first. In lists they are left out."`
}

// RefusedReservation is a request for a reservation of a name that another one had.
type RefusedReservation struct {
	At       time.Time          `json:"at" doc:"When it was accepted."`
	Flavor   compute.FlavorName `json:"flavor"`
	With     compute.Choices    `json:"with,omitempty"`
	Priority string             `json:"priority,omitempty" enum:"low,high" doc:"Absent: normal."`
	Count    int                `json:"count"`
	From     time.Time          `json:"from,omitzero"`
	Until    time.Time          `json:"until,omitzero"`
	Reason   *Reason            `json:"reason,omitempty"`

	Placeholders []compute.InstanceID `json:"placeholders" nullable:"false" doc:"What the answer to that request told of: all of them ended at once."`
}

// PlaceholderView is one of a reservation: an instance without a machine.
type PlaceholderView struct {
	ID      compute.InstanceID `json:"id" doc:"Its instance."`
	State   State              `json:"state" doc:"active: a host holds its room. unknown: the host that held it is silent."`
	Waiting *Reason            `json:"waiting,omitempty" doc:"Why no host holds it, as far as is known."`
	Host    compute.HostID     `json:"host,omitempty" doc:"Who holds it; an opaque id for callers without a role of the cell."`
	Taker   compute.InstanceID `json:"taken_by,omitempty" doc:"The instance that has it."`
}

// Reservations is a list.
type Reservations struct {
	Items []ReservationView `json:"items" nullable:"false"`
	Next  string            `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}

// InstancePlaceholder says of an instance that it has no machine, and holds room for one of a reservation.
type InstancePlaceholder struct {
	Reservation compute.ReservationName `json:"reservation"`
	From        time.Time               `json:"from,omitzero" doc:"When it may be taken."`
	Until       time.Time               `json:"until,omitzero" doc:"When it ends."`
	Taker       compute.InstanceID      `json:"taken_by,omitempty" doc:"The instance that has it, and counts in the quota in its place."`
}

func fromPlaceholder(p compute.Placeholder) *InstancePlaceholder {
	if p.Of == "" {
		return nil
	}
	return &InstancePlaceholder{Reservation: p.Of, From: utc(p.From), Until: utc(p.Until), Taker: p.Taker}
}

// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/berth-project/berth/pkg/compute"

// CapacityBy is how many machines of each flavor hosts could have, by the values of an axis.
type CapacityBy struct {
	By     compute.AxisName `json:"by,omitempty" doc:"The axis; absent: none was asked for."`
	Values []ValueCapacity  `json:"values" nullable:"false" doc:"Without a choice first, then of each value, by name."`
	Oldest float64          `json:"oldest_beacon_seconds" doc:"The age of the oldest beacon that counts: since this node heard it, or, if that was before it began, since it was written."`
}

// ValueCapacity is what the hosts have that do for one value.
type ValueCapacity struct {
	Value    compute.AxisValue  `json:"value,omitempty" doc:"Absent: without a choice on the axis, so of any host."`
	Hosts    uint32             `json:"hosts" doc:"That have what the value requires, and could have what it consumes."`
	Taking   uint32             `json:"taking" doc:"Of them: those that take work, if it fits."`
	Free     compute.Resources  `json:"free" doc:"What is free on those that take work."`
	Unusable compute.Resources  `json:"unusable" doc:"Of free: what stays on its host, whichever one flavor is booted there as often as it fits. Flavors count without a choice and with any one."`
	Largest  compute.FlavorName `json:"largest,omitempty" doc:"The flavor with room now of which one machine takes the largest part of these hosts; absent: none has."`
	Flavors  []FlavorCapacity   `json:"flavors" nullable:"false" doc:"Those that are offered with the value, by name."`
}

// FlavorCapacity is how many machines of one flavor there could be.
type FlavorCapacity struct {
	Flavor compute.FlavorName `json:"flavor"`
	Capacity
}

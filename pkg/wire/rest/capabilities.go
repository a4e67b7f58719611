// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/berth-project/berth/pkg/compute"

// Capabilities is what a client has to know to make a request that is valid.
type Capabilities struct {
	Items        []Capability `json:"items" nullable:"false" doc:"The axes that flavors may be combined with, by name, with their values: all, or a page where limit or marker is given."`
	Next         string       `json:"next,omitempty" doc:"Where limit is given: give this as marker to get the next page of items; absent on the last."`
	Flavors      []Flavor     `json:"flavors" nullable:"false" doc:"All flavors, by name."`
	Limits       []Limit      `json:"limits" nullable:"false" doc:"How much each part of a request may have. One that has more is refused, by the name of the field. What filters of lists may have is in /openapi.json."`
	Names        []NameRule   `json:"names" nullable:"false" doc:"What names and keys look like."`
	OnNoCapacity []Meaning    `json:"on_no_capacity" nullable:"false" doc:"The choices of that field of a boot."`
	Defaults     Defaults     `json:"defaults" doc:"What counts where a boot says nothing."`
	States       []Meaning    `json:"states" nullable:"false" doc:"Of an instance."`
	PowerStates  []Meaning    `json:"power_states" nullable:"false" doc:"Of an active instance."`
	Reasons      []Meaning    `json:"reasons" nullable:"false" doc:"The codes of reasons. Others may come with a later version."`
	Versions     Versions     `json:"versions"`
}

// Limit is how much one part of a request may have.
type Limit struct {
	Request string `json:"request" doc:"Which: boot, placements, power (stop, start, reboot), console, list, events, flavor, host (drain, disable, enable), dead host (evacuate, forget), token, or any that has a body." example:"boot"`
	Field   string `json:"field" example:"name"`
	Unit    string `json:"unit" doc:"What most counts." example:"bytes"`
	Least   int64  `json:"least,omitempty" doc:"What has less is refused; absent: 0, which is as if the field were left out." example:"1"`
	Most    int64  `json:"most" example:"255"`
}

// NameRule is what names of one kind look like.
type NameRule struct {
	Of      string `json:"of" example:"flavor"`
	Pattern string `json:"pattern" doc:"A regular expression for the whole name, but for its length."`
	Most    int    `json:"most_bytes" example:"64"`
}

// Meaning is a name that answers have, and what it means.
type Meaning struct {
	Name  string `json:"name"`
	Means string `json:"means" doc:"In a sentence."`
}

// Defaults is what counts where a boot says nothing.
type Defaults struct {
	Project      compute.Project `json:"project"`
	Attempts     compute.Attempt `json:"attempts"`
	Deadline     Duration        `json:"deadline"`
	OnNoCapacity string          `json:"on_no_capacity"`
}

// Versions is what answers.
type Versions struct {
	Berth   string        `json:"berth" doc:"The build of this API node; (devel) where it was built from a folder."`
	API     string        `json:"api" doc:"The first element of the paths, without its v."`
	Records SchemaReading `json:"record_schemas" doc:"Of what programs write to Kafka by themselves, and read there."`
}

// SchemaReading is which schemas of records a node reads.
type SchemaReading struct {
	First  compute.Schema `json:"first"`
	Newest compute.Schema `json:"newest"`
}

// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/berth-project/berth/pkg/compute"

// Mix is a question what would become of boots: of one kind, as it would be booted, or of several.
type Mix struct {
	Boot
	Flavor compute.FlavorName `json:"flavor,omitempty" doc:"The size of the machine, unless mix is given." example:"m1.small"`
	Count  int64              `json:"count,omitempty" doc:"How many of them; left out: 1." example:"3"`
	Atomic bool               `json:"atomic,omitempty" doc:"They are one set, as POST /v1/sets boots it: all start or none."`
	Mix    []MixKind          `json:"mix,omitempty" nullable:"false" doc:"Several kinds at once; no other field is given then, but for atomic."`
}

// MixKind is so many boots of one kind.
type MixKind struct {
	Boot
	Count int64 `json:"count,omitempty" doc:"How many of them; left out: 1. All of a mix are 10,000 at most."`
}

// Kinds are what is asked about, and whether they were given as a mix.
func (m Mix) Kinds() (kinds []MixKind, mixed bool) {
	if len(m.Mix) > 0 {
		return m.Mix, true
	}
	b := m.Boot
	b.Flavor = m.Flavor
	return []MixKind{{Boot: b, Count: m.Count}}, false
}

// Placements says what would become of boots, without booting anything. Nothing is reserved.
type Placements struct {
	Project      compute.Project `json:"project"`
	Count        int64           `json:"count" doc:"How many machines it would be, without those that are there already."`
	Fits         int64           `json:"fits" doc:"How many of them hosts have room for now: all kinds together, behind what waits in their queues for any host. What waits in other queues for the same hosts is not counted, nor what was accepted and is not decided yet."`
	Admitted     int64           `json:"admitted" doc:"How many of them the quota allows, in the order given."`
	Starts       bool            `json:"starts" doc:"All of them: the quota allows them, and they fit."`
	MayBoot      bool            `json:"may_boot" doc:"The caller has the role in the project that a boot needs."`
	Summary      string          `json:"summary" doc:"What would become of them, in a sentence."`
	Quota        []QuotaStep     `json:"quota" nullable:"false" doc:"By class, in alphabetical order: of all, then of the classes of priority that have limits of their own."`
	Refused      *Reason         `json:"refused,omitempty" doc:"The quota that keeps out some of them, if one does."`
	Kinds        []Placement     `json:"kinds" nullable:"false" doc:"Each kind, in the order given."`
	Set          *SetPlacement   `json:"set,omitempty" doc:"With atomic: how they would be offered to hosts as a set."`
	YouCan       []string        `json:"you_can" nullable:"false" doc:"What its project can do so that all start."`
	OperatorsCan []string        `json:"operators_can,omitempty" nullable:"false" doc:"What operators can do; shown to them alone."`
	Oldest       float64         `json:"oldest_beacon_seconds" doc:"The age of the oldest beacon that counts: since this node heard it, or, if that was before it began, since it was written."`
}

// SetPlacement says how a set would be offered to hosts.
type SetPlacement struct {
	Size  int64             `json:"size" doc:"How many machines it has."`
	Whole compute.QueueName `json:"whole,omitempty" doc:"The queue in which it would be offered whole, as one build that one host takes; absent: each part is offered by itself, in its own queue."`
	Says  string            `json:"says" doc:"The same in a sentence, with why it is offered in parts where its group wants all of it on one host."`
}

// QuotaStep is what the quota of one class would be used.
type QuotaStep struct {
	Class compute.ResourceClass `json:"class"`

	Priority string `json:"priority,omitempty" enum:"low,normal,high" doc:"The class of priority that it is the quota of; absent: of all."`

	Used  int64  `json:"used"`
	Asked int64  `json:"asked"`
	Would int64  `json:"would_be" doc:"used + asked."`
	Limit *int64 `json:"limit,omitempty" doc:"Absent: unlimited."`
	Over  bool   `json:"over" doc:"It would be more than the limit."`
}

// Placement says what would become of boots of one kind.
type Placement struct {
	Project      compute.Project    `json:"project"`
	Flavor       compute.FlavorName `json:"flavor"`
	With         compute.Choices    `json:"with,omitempty"`
	Queue        compute.QueueName  `json:"queue" doc:"Where they would wait."`
	Resources    compute.Resources  `json:"resources" doc:"What each would use of a host and of the quota."`
	Count        int64              `json:"count" doc:"How many are asked for."`
	Fits         int64              `json:"fits" doc:"How many of them hosts have room for now, together with all else that is asked for, behind what waits."`
	Alone        int64              `json:"alone" doc:"How many of them hosts would have room for if nothing else were asked for."`
	Starts       bool               `json:"starts" doc:"All of them: the quota allows it, and they fit."`
	Exists       *Existing          `json:"exists,omitempty" doc:"With an id or key that was used for the same boot: nothing new would be booted."`
	Summary      string             `json:"summary" doc:"What would become of one by itself, in a sentence."`
	Refused      *Reason            `json:"refused,omitempty" doc:"The quota that keeps out some of them, if nothing else were asked for."`
	Place        *Place             `json:"place,omitempty" doc:"Where in its queue the first would wait; absent if it is for one host."`
	Hosts        Standings          `json:"hosts" doc:"What every host is to it before any of them is there, by what hosts said last."`
	ToGo         *ToGo              `json:"to_go,omitempty" doc:"If not all fit: without which machines one more would, on the host that lacks least. Absent if none would help, or more than 32 had to go."`
	YouCan       []string           `json:"you_can" nullable:"false" doc:"What its project can do so that it starts."`
	OperatorsCan []string           `json:"operators_can,omitempty" nullable:"false" doc:"What operators can do; shown to them alone."`
}

// Existing is the instance of an earlier request.
type Existing struct {
	ID    compute.InstanceID `json:"id"`
	State State              `json:"state" enum:"accepted,queued,starting,active,deleting,deleted,error,unknown"`
}

// ToGo are machines of one host.
type ToGo struct {
	Machines  int               `json:"machines" doc:"How many."`
	Resources compute.Resources `json:"resources,omitempty" doc:"What they have together; shown to operators alone."`
	Host      compute.HostID    `json:"host,omitempty" doc:"Where; shown to operators alone."`
	Instances []GoingInstance   `json:"instances,omitempty" nullable:"false" doc:"Which; shown to operators alone."`
}

// GoingInstance is one of them.
type GoingInstance struct {
	ID        compute.InstanceID `json:"id"`
	Project   compute.Project    `json:"project"`
	Name      string             `json:"name,omitempty"`
	Resources compute.Resources  `json:"resources"`
}

// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Entry is one instance on this host. It is there from before the first thing
// is done for it until everything about it has been undone and told.
type Entry struct {
	Instance  compute.InstanceID   `json:"instance"`
	Project   compute.Project      `json:"project"`
	Name      string               `json:"name,omitempty"`
	Queue     compute.QueueName    `json:"queue,omitempty"` // empty for what was adopted from the hypervisor
	Pinned    bool                 `json:"pinned,omitempty"`
	Attempt   compute.Attempt      `json:"attempt"`
	Claim     compute.ClaimID      `json:"claim"`
	Fence     compute.FenceEpoch   `json:"fence,omitempty"` // that it was taken under
	Resources compute.Resources    `json:"resources"`
	Devices   []compute.PCIAddress `json:"devices,omitempty"` // it has these and no others
	Nodes     []int                `json:"nodes,omitempty"`   // NUMA nodes that it is on; empty: any
	Trace     compute.Trace        `json:"trace,omitempty"`
	Group     compute.GroupName    `json:"group,omitempty"` // it is a member of
	Hold      time.Duration        `json:"hold,omitempty"`  // how long its claim may have to wait for an answer
	// it has no machine, and holds room for the instance that takes it
	Placeholder bool                   `json:"placeholder,omitempty"`
	In          *compute.InPlaceholder `json:"in,omitempty"` // whose room it has
	// its place may be asked for, how often it was taken elsewhere, and whether it was asked for here
	Preemptible bool   `json:"preemptible,omitempty"`
	TimesTaken  uint32 `json:"times_taken,omitempty"`
	Wanted      bool   `json:"wanted,omitempty"`
	// where its record lay, as long as the host is not granted it, and how many machines went for it
	Lay      compute.QueueName `json:"lay,omitempty"`
	MadeRoom uint32            `json:"made_room,omitempty"`
	// StageGranted: its machine stands still, and is let go by a start alone
	Waits bool  `json:"waits,omitempty"`
	Stage Stage `json:"stage"`
	// StageClaimed: Prepare failed, so a grant is answered with this
	Broken  *Failure            `json:"broken,omitempty"`
	End     *End                `json:"end,omitempty"`     // StageEnding
	Version compute.Version     `json:"version,omitempty"` // of the highest power command that was begun
	Reboots []compute.CommandID `json:"reboots,omitempty"` // begun, and so never again; the newest last
}

// Stage is how far an instance has come here; it only moves forward.
//
//	taken ─▶ claimed ─▶ granted ─▶ ending ─▶ (no entry)
//	   └─────────┴────────────────▶
type Stage string

// The stages. What else can be known of an instance, the hypervisor knows.
const (
	StageTaken   Stage = "taken"   // being prepared; its work is still the queue's
	StageClaimed Stage = "claimed" // a claim may have been sent
	StageGranted Stage = "granted" // it may have been launched
	StageEnding  Stage = "ending"  // End says how; whatever is left here is being destroyed
)

// End is how an instance ends here.
type End struct {
	How     Outcome  `json:"how"`
	Failure *Failure `json:"failure,omitempty"` // OutcomeFailed
}

// Outcome is what is told of an instance that ended here.
type Outcome string

// The outcomes.
const (
	OutcomeQuiet    Outcome = "quiet"    // nothing: it was denied, or never claimed
	OutcomeReturned Outcome = "returned" // given back unanswered
	OutcomeFailed   Outcome = "failed"   // certainly not running
	OutcomeGone     Outcome = "gone"     // destroyed as told
)

// Failure is why something does not run.
type Failure struct {
	Class   compute.FailureClass `json:"class"`
	Message string               `json:"message,omitempty"`
}

// Given is a claim that was given back: a grant for it comes too late.
type Given struct {
	Instance compute.InstanceID `json:"instance"`
	Attempt  compute.Attempt    `json:"attempt"`
	Claim    compute.ClaimID    `json:"claim"`
	At       time.Time          `json:"at"`
}

// FailedClaim is a claim that failed. The conductor may not have counted the report that said why, and then asks again.
type FailedClaim struct {
	Instance compute.InstanceID `json:"instance"`
	Attempt  compute.Attempt    `json:"attempt"`
	Claim    compute.ClaimID    `json:"claim"`
	Why      Failure            `json:"why"`
}

// Host is what is known of the host as a whole.
type Host struct {
	Desired     compute.HostDesired `json:"desired"`
	Fails       int                 `json:"fails"`            // starts that failed in a row
	Quarantines int                 `json:"quarantines"`      // in a row, without a start that succeeded in between
	Until       time.Time           `json:"until"`            // when the last quarantine ends; zero: there is none
	Reason      string              `json:"reason,omitempty"` // why it is in quarantine
	// of the last word that this host was dead; 0: never heard
	Fence   compute.FenceEpoch `json:"fence,omitempty"`
	Greeted bool               `json:"greeted"`          // every conductor's hello of this journal is in the log
	Driver  string             `json:"driver,omitempty"` // that made the instances, and where it keeps them
}

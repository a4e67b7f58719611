// Package hypervisor is the contract between an agent and whatever runs
// machines on its host. Drivers live in the folders below; package
// hypervisortest is the contract as a test suite that every driver passes.
package hypervisor

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Machine is what a driver keeps with each machine it makes, in a place that
// survives the agent and the host's reboot, and gives back in List.
type Machine struct {
	Instance  compute.InstanceID
	Project   compute.Project
	Attempt   compute.Attempt
	Claim     compute.ClaimID
	Fence     compute.FenceEpoch // as in Spec
	Resources compute.Resources  // what it holds of the host, running or not
	Launched  bool               // Launch was called for it: from then on it may have run
	Power     compute.PowerState
	Detail    string // for the operator: why it stopped, where its files are
}

// Spec is all a driver needs to make a machine.
type Spec struct {
	Instance  compute.InstanceID
	Project   compute.Project
	Attempt   compute.Attempt
	Claim     compute.ClaimID
	Fence     compute.FenceEpoch // of the last word, before it was made, that this host was dead
	Name      string
	Resources compute.Resources
	Image     string
	Metadata  map[string]string
	UserData  []byte
}

// Driver makes and ends machines. All methods may be called at any time from
// any goroutine, except that calls for one instance never overlap. Every call
// honours its context: when it ends, the call returns soon, and what it was
// doing is either finished or undone as said below.
//
//	(nothing) ─Prepare─▶ prepared ─Launch─▶ running ◀─Start/Stop─▶ stopped
//	     ▲                  │                  │                      │
//	     └────── Destroy ───┴──────────────────┴──────────────────────┘
//
// Errors are *Error where the driver knows the class; any other error counts
// as FailureUnknown. Drivers keep none of the arguments' memory.
type Driver interface {
	// Prepare does everything that can be undone: image, disk, devices, the
	// machine defined but not running. It may take minutes. After an error
	// nothing is left of this attempt. Called again for the same instance and
	// attempt, it finishes or answers nil; for a later attempt of an instance
	// that is only prepared, it replaces it; for one that was launched it
	// answers an error of class FailureHost and changes nothing.
	Prepare(ctx context.Context, s Spec) error

	// Launch lets a prepared machine run. It is short and cannot be undone but
	// by Destroy. Idempotent by instance, attempt and claim: a second call for
	// a machine that was launched answers nil and starts nothing, also after a
	// crash in between. Not prepared, or prepared for another attempt or claim:
	// an error, and nothing runs. After an error the caller cannot know whether
	// it runs; it asks List, or calls Destroy.
	Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error

	// Destroy ends a machine, running or prepared, and removes all it had on
	// the host. Nothing there: nil. It never touches machines Berth did not make.
	Destroy(ctx context.Context, id compute.InstanceID) error

	// List gives every machine of Berth on this host, prepared ones included.
	// An error is no answer: the caller must not conclude that nothing is there.
	List(ctx context.Context) ([]Machine, error)

	// Inventory says what the host has and what others than Berth use of it.
	Inventory(ctx context.Context) (compute.Inventory, error)

	Power
}

// Power changes what a launched machine does. It keeps its share of the host.
type Power interface {
	// Stop ends the guest: softly within grace, then hard; grace 0 is hard at
	// once. Stopped already: nil.
	Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error
	// Start runs a stopped, launched machine again. Running already: nil.
	Start(ctx context.Context, id compute.InstanceID) error
	// Reboot restarts a running guest. The caller guards against doing it twice.
	Reboot(ctx context.Context, id compute.InstanceID, hard bool) error
}

// Error is a driver's refusal with its class.
type Error struct {
	Class   compute.FailureClass
	Message string // one line for the operator
	Cause   error
}

// Error is the message with its cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

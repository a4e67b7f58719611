// SPDX-License-Identifier: Apache-2.0

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
	compute.Place
	Launched    bool // Launch was called for it: from then on it may have run
	Placeholder bool // it is none, and holds room
	Verdict
}

// Verdict is what a driver finds that a machine does, and why.
type Verdict struct {
	Power  compute.PowerState
	Why    compute.ReasonCode // launched and stopped or paused: why, as far as the driver can tell; empty: it cannot
	Detail string             // for the operator: why it stopped, where its files are
	// Launched, but what was to let its guest go was broken off: it stands still until Launch, or Start, is called
	Waits bool
}

// Waiting is the verdict on what stands still because the agent that was to let it
// go died.
func Waiting() Verdict {
	return Verdict{
		Power:  compute.PowerStopped,
		Why:    compute.StoppedUnknown,
		Detail: "its process waits to be let go",
		Waits:  true,
	}
}

// Stopped is the verdict on what does not run.
func Stopped(why compute.ReasonCode, detail string) Verdict {
	return Verdict{Power: compute.PowerStopped, Why: why, Detail: detail}
}

// Paused is the verdict on what stands still where it was, until Start lets it go on.
func Paused(why compute.ReasonCode, detail string) Verdict {
	return Verdict{Power: compute.PowerPaused, Why: why, Detail: detail}
}

// Running is the verdict on what runs.
func Running(detail string) Verdict { return Verdict{Power: compute.PowerRunning, Detail: detail} }

// Spec is all a driver needs to make a machine.
type Spec struct {
	Instance      compute.InstanceID
	Project       compute.Project
	Attempt       compute.Attempt
	Claim         compute.ClaimID
	Fence         compute.FenceEpoch // of the last word, before it was made, that this host was dead
	Name          string
	Resources     compute.Resources
	compute.Place // only where Capabilities says so
	Image         string
	Metadata      map[string]string
	SSHKeys       []string // lines as in authorized_keys
	UserData      []byte
	Placeholder   bool                  // there is no machine to make: it holds room. Only where Capabilities says so
	In            compute.InPlaceholder // the placeholder on this host whose room it has; none: its own
}

// Driver makes and ends machines. All methods may be called at any time from
// any goroutine, except that calls for one instance never overlap (Console and
// List do not count). Every call honours its context: when it ends, the call
// returns soon, and what it was doing is either finished or undone as said below.
//
//	(nothing) ─Prepare─▶ prepared ─Launch─▶ running ◀─Start/Stop─▶ stopped
//	     ▲                  │                  │                      │
//	     └────── Destroy ───┴──────────────────┴──────────────────────┘
//
// The agent may die at any moment of any call; machines do not die with it.
// The driver of its next life finds each machine in one of the states above,
// and the same call again brings it where the broken one was going.
//
// Errors are *Error where the driver knows the class:
//
//	FailureRequest  no host could do it: an image larger than the flavor's disk,
//	                user data that cannot be read. Not tried again.
//	FailureHost     this host cannot: a full disk, an image that is broken or not
//	                here, a device in use, a hypervisor that does not start, a call
//	                that does not fit the machine's state. Tried elsewhere; counts
//	                against the host, or with Image against the image as it lies, or
//	                does not lie, on this host.
//	FailureTimeout  the driver's own patience ended, and it was undone. A context
//	                that ended is answered with the context's error instead.
//
// Any other error counts as FailureUnknown. Drivers keep none of the arguments'
// memory, and what they return is the caller's.
type Driver interface {
	// Prepare does everything that can be undone: image, disk, devices, the
	// machine defined but not running. It may take minutes. After an error
	// nothing is left of this attempt: no process, file, socket, device; if even
	// that failed, the error says so and List shows what is left. An agent that
	// died inside leaves a machine that List shows as not launched. Called again
	// for the same instance, attempt and claim, it finishes, begins anew or
	// answers nil; for a later attempt of an instance that is only prepared, it
	// replaces it; for one that was launched it answers FailureHost and changes
	// nothing.
	Prepare(ctx context.Context, s Spec) error

	// Launch lets a prepared machine run. It is short and cannot be undone but
	// by Destroy. Idempotent by instance, attempt and claim: a second call for
	// a machine that was launched answers nil and starts nothing, also after a
	// crash in between, also if the machine has stopped since; one that Waits it
	// lets go. Nobody else does: the host may have been declared dead meanwhile,
	// and only the agent knows. Not prepared, or
	// prepared for another attempt or claim: FailureHost, and nothing runs. After
	// an error the caller cannot know whether it runs; it asks List, or calls
	// Destroy.
	Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error

	// Destroy ends a machine, running or prepared, and removes all it had on
	// the host. Nothing there: nil. It asks the guest nothing. After an error
	// something may be left; the same call again goes on. It never touches
	// machines Berth did not make.
	Destroy(ctx context.Context, id compute.InstanceID) error

	// List gives every machine of Berth on this host, prepared ones included, by
	// instance. One that was ended by anybody else, or by its own guest, is there
	// and PowerStopped, one that stands still PowerPaused, with the reason in Why and
	// Detail. An error is no answer: the
	// caller must not conclude that nothing is there.
	List(ctx context.Context) ([]Machine, error)

	// Inventory says what the host has and what others than Berth use of it. It
	// is quick: it is asked every few seconds.
	Inventory(ctx context.Context) (Inventory, error)

	// Capabilities says what this driver can do on this host. It asks nobody and
	// never changes in the driver's life.
	Capabilities() Capabilities

	Power
}

// Power changes what a launched machine does. It keeps its share of the host.
// For a machine that was not launched each answers FailureHost.
type Power interface {
	// Stop ends the guest: it is asked to shut down, and after grace it is ended
	// as if power were cut; grace 0 is that at once. A paused one is let go on before
	// it is asked, for it hears nothing. Stopped already: nil. A
	// context that ends while the guest is asked leaves it running, or shutting
	// down by itself.
	Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error
	// Start runs a stopped, launched machine again, from its disk, and lets a paused
	// one go on where it stands. Running already: nil; what paused it may pause it
	// again at once. One that does not say what it does: an error, and nothing is done.
	Start(ctx context.Context, id compute.InstanceID) error
	// Reboot restarts a running guest: with grace as Stop and Start do, with
	// grace 0 by a reset. Stopped: FailureHost. The caller guards against doing it
	// twice; after a crash inside the machine may be stopped.
	Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error
}

// Console is for drivers that keep what guests print on their serial console.
// Find it with As.
type Console interface {
	// Console reads at most limit bytes from offset on; a negative offset counts
	// back from the end. Offsets count all that the machine ever printed, over
	// stops and reboots; the oldest part may be gone, then Part.Offset is where
	// the rest begins. At the end Data is empty. No such machine: FailureHost.
	Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (Part, error)
}

// Part is a part of a console.
type Part struct {
	Offset int64 // of Data's first byte
	Data   []byte
	End    int64 // how much was ever printed
}

// Events is for drivers that hear of changes before they are asked. Find it
// with As.
type Events interface {
	// Events tells what happens to Berth's machines until ctx ends, and answers the error of ctx. It is a hint to ask
	// List soon: an event may be missed or come twice, and it says nothing of what was there before. tell is called
	// by one goroutine at a time and must not block.
	Events(ctx context.Context, tell func(Event)) error
}

// Event is a machine's new power state.
type Event struct {
	Instance compute.InstanceID
	Power    compute.PowerState
	Detail   string // as in Machine
}

// Inventory is what a host has. Lists a driver does not know are empty.
type Inventory struct {
	compute.Inventory // Unmanaged is the sum of Foreign
	Foreign           []compute.Foreign
	Nodes             []compute.NUMANode  // by ID
	Devices           []compute.PCIDevice // by address
}

// Capabilities says what a driver can do on its host.
type Capabilities struct {
	Driver   string // "fake", "qemu", "libvirt", "exec"
	Home     string // where it keeps its machines; another driver, or one with another home, does not see them
	SoftStop bool   // guests can be asked to shut down
	Console  bool   // it is a Console
	Events   bool   // it is Events
	Foreign  bool   // it sees machines that Berth did not start
	Devices  bool   // it can give PCI devices to guests
	Nodes    bool   // it can keep a machine on a NUMA node
	// it keeps placeholders, too; one that does not is given a package placeholder over it
	Placeholders bool
	Detail       string // for the operator: which version, which acceleration
	// Warnings say what does not keep machines apart from each other and from the host, or keeps them slow; after "; "
	// what to do.
	Warnings []string
}

// As finds an optional interface of a driver, also through wrappers that have a
// method Unwrap() Driver.
func As[T any](d Driver) (T, bool) {
	for {
		if t, ok := d.(T); ok {
			return t, true
		}
		w, ok := d.(interface{ Unwrap() Driver })
		if !ok {
			var none T
			return none, false
		}
		d = w.Unwrap()
	}
}

// Error is a driver's refusal with its class.
type Error struct {
	Class   compute.FailureClass
	Message string // one line for the operator: which part, its value, what to do
	Cause   error
	Image   bool // of FailureHost: the image on this host is at fault, or has no room; other images are well
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

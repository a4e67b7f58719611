// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// version of all documents, both ways.
const version = 1

// identity is the first line of a prepare. The command keeps it with the machine
// and gives it back in list.
type identity struct {
	Version   int                `json:"version"`
	Instance  compute.InstanceID `json:"instance"`
	Project   compute.Project    `json:"project"`
	Attempt   compute.Attempt    `json:"attempt"`
	Claim     compute.ClaimID    `json:"claim"`
	Fence     compute.FenceEpoch `json:"fence"`
	Resources compute.Resources  `json:"resources"`
}

// request is the second line of a prepare. The image is first, so that a shell
// script can find it.
type request struct {
	Image    string            `json:"image"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
	SSHKeys  []string          `json:"ssh_keys"`
	UserData []byte            `json:"user_data"` // base64
}

// launchRequest, powerRequest and consoleRequest are what those calls read.
type launchRequest struct {
	Version int             `json:"version"`
	Attempt compute.Attempt `json:"attempt"`
	Claim   compute.ClaimID `json:"claim"`
}

type powerRequest struct {
	Version int   `json:"version"`
	GraceMS int64 `json:"grace_ms"`
}

type consoleRequest struct {
	Version int   `json:"version"`
	Offset  int64 `json:"offset"`
	Limit   int   `json:"limit"`
}

// abilities is the answer to capabilities.
type abilities struct {
	SoftStop bool   `json:"soft_stop"`
	Console  bool   `json:"console"`
	Foreign  bool   `json:"foreign"`
	Detail   string `json:"detail"`
}

// holdings is the answer to inventory.
type holdings struct {
	Totals   compute.Resources `json:"totals"`
	Reserved compute.Resources `json:"reserved"`
	Traits   []compute.Trait   `json:"traits"`
	Foreign  []struct {
		Name string            `json:"name"`
		PID  int               `json:"pid"`
		Uses compute.Resources `json:"uses"`
	} `json:"foreign"`
}

// inventory checks what the command says the host has.
func (h holdings) inventory() (hypervisor.Inventory, error) {
	inv := hypervisor.Inventory{Inventory: compute.Inventory{
		Totals: h.Totals, Reserved: h.Reserved, Traits: slices.Sorted(slices.Values(h.Traits)),
		Unmanaged: compute.Resources{},
	}}
	inv.Traits = slices.Compact(inv.Traits)
	errs := []error{within("totals", h.Totals), within("reserved", h.Reserved)}
	if len(h.Totals) == 0 {
		errs = append(errs, errors.New(`"totals" is missing`))
	}
	for _, t := range inv.Traits {
		errs = append(errs, t.Check())
	}
	for _, f := range h.Foreign {
		errs = append(errs, within("foreign", f.Uses))
		inv.Foreign = append(inv.Foreign, compute.Foreign{Name: short(f.Name), PID: f.PID, Uses: f.Uses})
		inv.Unmanaged = inv.Unmanaged.Plus(f.Uses)
	}
	return inv, errors.Join(errs...)
}

// within checks amounts, of which there may be none.
func within(what string, r compute.Resources) error {
	if len(r) > compute.MaxClasses {
		return fmt.Errorf("%q has %d classes, and may have %d", what, len(r), compute.MaxClasses)
	}
	var errs []error
	for _, c := range r.Classes() {
		errs = append(errs, c.Check())
		if r[c] < 0 || r[c] > compute.MaxAmount {
			errs = append(
				errs,
				fmt.Errorf("%q has %d of %s: it has to be from 0 to %d", what, r[c], c, int64(compute.MaxAmount)),
			)
		}
	}
	return errors.Join(errs...)
}

// The states in which the command may have a machine.
const (
	preparing = "preparing" // a prepare was broken off
	prepared  = "prepared"
	launched  = "launched"
)

// listing is the answer to list.
type listing struct {
	Machines *[]listed `json:"machines"` // nil: it was not said
}

// listed is one machine in it.
type listed struct {
	Machine json.RawMessage `json:"machine"`
	State   string          `json:"state"`
	Power   string          `json:"power"` // once launched
	Why     string          `json:"why"`   // once launched and stopped or paused: one of stops; empty: nobody knows
	Detail  string          `json:"detail"`
}

// stops are why a machine may be stopped or paused.
var stops = []compute.ReasonCode{
	compute.StoppedByCommand, compute.GuestShutdown, compute.GuestPanicked, compute.MachineKilled,
	compute.HostRestarted, compute.HypervisorError, compute.StoppedUnknown,
	compute.DiskError, compute.PausedOutside, compute.GuestSuspended, compute.WatchdogFired,
}

// found is a machine as the command has it.
type found struct {
	hypervisor.Machine
	state string
}

// machine checks one of the list.
func (l listed) machine() (found, error) {
	var id identity
	if err := json.Unmarshal(l.Machine, &id); err != nil {
		return found{}, fmt.Errorf(
			`"machine" is %q, and has to be the first line that prepare has read: %w`,
			short(string(l.Machine)),
			err,
		)
	}
	if id.Version != version || id.Instance.Check() != nil || id.Attempt == 0 || id.Claim == "" ||
		len(id.Claim)+len(id.Project) > mostNames || within("resources", id.Resources) != nil {
		return found{}, fmt.Errorf(
			`"machine" is %q, and has to be the first line that prepare has read`,
			short(string(l.Machine)),
		)
	}
	if !slices.Contains([]string{preparing, prepared, launched}, l.State) {
		return found{}, fmt.Errorf(
			`"state" of %s is %q, and has to be preparing, prepared or launched`,
			id.Instance,
			short(l.State),
		)
	}
	f := found{state: l.State, Machine: hypervisor.Machine{
		Instance: id.Instance, Project: id.Project, Attempt: id.Attempt, Claim: id.Claim, Fence: id.Fence,
		Resources: id.Resources,
		Launched:  l.State == launched, Verdict: hypervisor.Stopped("", hypervisor.Brief(l.Detail)),
	}}
	if !f.Launched {
		f.Detail = l.State
		return f, nil
	}
	power, ok := map[string]compute.PowerState{
		"running": compute.PowerRunning, "stopped": compute.PowerStopped, "paused": compute.PowerPaused,
		"unknown": compute.PowerUnknown,
	}[l.Power]
	if !ok {
		return found{}, fmt.Errorf(
			`"power" of %s is %q, and has to be running, stopped, paused or unknown`,
			id.Instance,
			short(l.Power),
		)
	}
	f.Power, f.Why = power, compute.ReasonCode(l.Why)
	if l.Why != "" && !slices.Contains(stops, f.Why) {
		return found{}, fmt.Errorf(
			`"why" of %s is %q, and has to be empty or one of %v`,
			id.Instance,
			short(l.Why),
			stops,
		)
	}
	if f.Detail == "" && power == compute.PowerStopped {
		f.Detail = "stopped; the command does not say why"
	}
	return f, nil
}

// machines checks the whole list, and sorts it.
func (l listing) machines() ([]found, error) {
	if l.Machines == nil {
		return nil, errors.New(`"machines" is missing; where there are none it is []`)
	}
	var all []found
	seen := map[compute.InstanceID]bool{}
	for _, one := range *l.Machines {
		f, err := one.machine()
		if err == nil && seen[f.Instance] {
			err = fmt.Errorf("%s is there twice", f.Instance)
		}
		if err != nil {
			return nil, err
		}
		seen[f.Instance] = true
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int {
		if a.Instance < b.Instance {
			return -1
		}
		return 1
	})
	return all, nil
}

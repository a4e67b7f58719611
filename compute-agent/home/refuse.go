// SPDX-License-Identifier: Apache-2.0

package home

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// String is the folder, and the part of it if it is not one host's whole.
func (p Place) String() string {
	if p.Of != "" {
		return p.Dir + " (machines of " + p.Of + ")"
	}
	if name := strings.TrimSuffix(p.Name, "."); name != "" {
		return p.Dir + " (" + name + ")"
	}
	return p.Dir
}

// foreign refuses a folder that is another's.
func (p Place) foreign(has, is Owner) error {
	remedy := fmt.Sprintf("set host to %s again", has.Host)
	if has.Host == is.Host {
		remedy = fmt.Sprintf("bring journal %s back into the folder of state", has.Journal)
	}
	if has.Journal == is.Journal {
		remedy += ", or move this journal away: under a new name a host begins with a new, empty one, to which " +
			`"berth agent adopt" hands the folder over`
	} else {
		remedy += `, or hand the folder over on purpose with "berth agent adopt" and the flags of this agent`
	}
	return &compute.Error{
		Op: "agent", Kind: compute.KindInvalid, Field: "folder of machines", Value: p.String(),
		Message: fmt.Sprintf("belongs to %s, and this agent is %s: it touches none of its machines", has, is),
		Remedy:  remedy,
	}
}

// ErrAway says that the machines of a journal are not in their folder, and that their disk may come yet.
var ErrAway = errors.New("their disk may not be mounted")

// present refuses a folder that is to have machines and has none.
func (p Place) present(machines int) error {
	if machines == 0 || p.Setting == "" {
		return nil
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return p.unusable(err)
	}
	for _, e := range entries {
		if compute.InstanceID(e.Name()).Check() == nil {
			return nil
		}
	}
	return &compute.Error{
		Op: "agent", Kind: compute.KindUnavailable, Field: p.Setting, Value: p.Dir, Cause: ErrAway,
		Message: fmt.Sprintf("has none of this host's machines, and the journal has %d", machines),
		Remedy: fmt.Sprintf("mount it, or set %s to the folder that has them; if they are gone for good, %s", p.Setting,
			cmp.Or(p.IfGone, `say so with "berth agent adopt" and the flags of this agent: it reports them failed`)),
	}
}

func (p Place) held() error {
	return &compute.Error{
		Op: "agent", Kind: compute.KindConflict, Field: "folder of machines", Value: p.String(),
		Message: "is held by another agent that runs",
		Remedy:  "stop that one, or give this one machines of its own: another folder or command",
	}
}

func (p Place) unusable(cause error) error {
	kind := compute.KindInvalid
	if compute.DiskFull(cause) {
		kind = compute.KindUnavailable
	}
	return &compute.Error{
		Op: "agent", Kind: kind, Field: "folder of machines", Value: p.String(), Cause: cause,
		Message: "cannot be used",
		Remedy:  "give a folder that this process may write to, on a disk with room that survives a reboot",
	}
}

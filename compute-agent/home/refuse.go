// SPDX-License-Identifier: Apache-2.0

package home

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

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

func (p Place) held() error {
	return &compute.Error{
		Op: "agent", Kind: compute.KindConflict, Field: "folder of machines", Value: p.String(),
		Message: "is held by another agent that runs",
		Remedy:  "stop that one, or give this one machines of its own: another folder or command",
	}
}

func (p Place) unusable(cause error) error {
	kind := compute.KindInvalid
	if errors.Is(cause, syscall.ENOSPC) || errors.Is(cause, syscall.EDQUOT) {
		kind = compute.KindUnavailable
	}
	return &compute.Error{
		Op: "agent", Kind: kind, Field: "folder of machines", Value: p.String(), Cause: cause,
		Message: "cannot be used",
		Remedy:  "give a folder that this process may write to, on a disk with room that survives a reboot",
	}
}

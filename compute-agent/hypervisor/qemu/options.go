// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// Options say how a host runs its machines. Zero values are the defaults.
type Options struct {
	host.Options

	// Users is a range of user ids that nobody else on the host has, as in
	// "900000-900999": each machine runs as one of them. The agent has to be root.
	// Empty (default): machines run as the agent's user.
	Users string
}

func (o Options) defaults() Options {
	o.Options = o.WithDefaults()
	return o
}

// Check refuses what cannot work, with all reasons at once.
func (o Options) Check() error {
	o = o.defaults()
	errs := o.Options.Check(nil, "")
	if n := len(filepath.Join(o.Dir, string(make([]byte, 36)), socketFile)); n > host.LongestPath {
		errs = append(
			errs,
			compute.Invalid("dir", o.Dir, fmt.Sprintf("give a path shorter by %d letters: a socket's name "+
				"may have %d in all", n-host.LongestPath, host.LongestPath)),
		)
	}
	if _, err := usersOf(o.Users); err != nil {
		errs = append(
			errs,
			compute.Invalid("users", o.Users, fmt.Sprintf("give a range of user ids from %d on that nobody "+
				"has, as in 900000-900999, or nothing", leastUser)),
		)
	}
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Options say what is run.
type Options struct {
	// Command is a program by its full path, and the arguments before the verb.
	Command []string
	// Timeout is the patience with one call, in which a stop's grace does not
	// count; default 30 min. Then it is killed with all its processes.
	Timeout time.Duration
}

// The bounds of a Timeout: an agent gives up a preparation after an hour.
const (
	DefaultTimeout = 30 * time.Minute
	leastTimeout   = time.Second
	mostTimeout    = time.Hour
)

func (o Options) defaults() Options {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return o
}

// Check refuses what cannot work, with all reasons at once.
func (o Options) Check() error {
	o = o.defaults()
	var errs []error
	program := ""
	if len(o.Command) > 0 {
		program = o.Command[0]
	}
	if !filepath.IsAbs(program) {
		errs = append(
			errs,
			compute.Invalid(
				"command", program,
				"give the full path of a program, and its arguments before the verb if there are any",
			),
		)
	}
	if o.Timeout < leastTimeout || o.Timeout > mostTimeout {
		errs = append(errs, compute.Invalid("timeout", o.Timeout.String(), "give a time from 1s to 1h"))
	}
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"errors"
)

// CrashPoint is where an agent may die in the middle of a call, for tests: it hears the name of each such
// moment, and answers ErrCrash to have the agent die there. Then nothing more is done, and nothing undone.
type CrashPoint func(moment string) error

// ErrCrash is a death that a test has planned.
var ErrCrash = errors.New("the agent dies here")

// NoCrash is the CrashPoint of every agent outside tests.
func NoCrash(string) error { return nil }

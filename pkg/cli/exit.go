// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/pkg/compute"
)

// exitCode is what the process answers its caller. The numbers are promised to
// scripts.
type exitCode int

// The exit codes.
const (
	exitOK         exitCode = iota
	exitError               // anything without a number of its own
	exitUsage               // wrong flags, arguments or values
	exitNotFound            // unknown flavor, axis, value, instance, queue, host
	exitQuota               // the project may not have this
	exitNoCapacity          // no host took it in time
	exitAuth                // the caller is not known, or may not
	exitTimeout             // the wait timed out; the outcome is open
	exitConflict            // exists already, ambiguous name, wrong state
	exitNotEmpty            // a host's deadline to be drained passed, and something is left
)

// usageError is a mistake on the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Execute runs the command line, prints what went wrong and answers the exit
// code. What is returned before a command's own work begins is a usage error.
func Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	started := false
	markStart(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return int(exitOK)
	}
	if !started {
		err = usageError{inWords(err)}
	}
	fmt.Fprintln(root.ErrOrStderr(), "berth: "+shownError(err))
	if code := codeOf(err); code != exitUsage || started {
		return int(code)
	}
	if cmd.HasParent() && !cmd.HasSubCommands() {
		fmt.Fprintln(root.ErrOrStderr(), "usage: "+cmd.UseLine())
	}
	fmt.Fprintf(root.ErrOrStderr(), "\"%s --help\" shows what there is\n", cmd.CommandPath())
	return int(exitUsage)
}

// shownError is an error as a terminal may show it: names and what others answered steer nothing, and lines after the
// first are indented, so that none of them looks like one that Berth begins.
func shownError(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for n, line := range lines {
		if lines[n] = Printable(line); n > 0 && !strings.HasPrefix(line, "  ") {
			lines[n] = "  " + lines[n]
		}
	}
	return strings.Join(lines, "\n")
}

// inWords says of a value that a flag does not take what it takes, where pflag says
// what strconv says.
func inWords(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	var said *compute.Error
	if errors.As(bad.Unwrap(), &said) {
		return said
	}
	remedy, known := map[string]string{
		"int": "give a whole number", "int64": "give a whole number", "uint32": "give a whole number from 0 on",
		"float64": "give a number, as in 0.5", "duration": "give a duration with its unit, as in 15s or 10m",
		"bool": "give true or false",
	}[bad.GetFlag().Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		remedy = "that is more than it may be"
	case !known:
		return err
	}
	return compute.Invalid(bad.GetFlag().Name, bad.GetValue(), remedy)
}

// markStart notes when any command's own work begins.
func markStart(c *cobra.Command, started *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		markStart(sub, started)
	}
}

// codeOf is the exit code for an error.
func codeOf(err error) exitCode {
	if err == nil {
		return exitOK
	}
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	if errors.As(err, new(notEmptyError)) {
		return exitNotEmpty
	}
	switch compute.KindOf(err) {
	case compute.KindInvalid:
		return exitUsage
	case compute.KindNotFound:
		return exitNotFound
	case compute.KindQuota:
		return exitQuota
	case compute.KindNoCapacity:
		return exitNoCapacity
	case compute.KindForbidden, compute.KindUnauthenticated:
		return exitAuth
	case compute.KindTimeout:
		return exitTimeout
	case compute.KindConflict:
		return exitConflict
	}
	return exitError
}

// kindOfReason says how a caller that waited can act on an instance's end.
func kindOfReason(code compute.ReasonCode) compute.Kind {
	switch code {
	case compute.QuotaExceeded:
		return compute.KindQuota
	case compute.NoSuchFlavor, compute.NoSuchCapability, compute.NoSuchGroup, compute.QueueClosedReason,
		compute.NoSuchReservation:
		return compute.KindNotFound
	case compute.DeadlineExceeded, compute.NeverFits, compute.NoEligibleHost,
		compute.WaitingForCapacity, compute.PinnedHostUnavailable, compute.GroupRule, compute.SetWaits,
		compute.ReservationFull, compute.ReservationWaits, compute.ReservationEnded:
		return compute.KindNoCapacity
	case compute.Malformed:
		return compute.KindInvalid
	case compute.Cancelled:
		return compute.KindConflict
	}
	return compute.KindInternal
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/subprocess"
)

// environment is all that the command finds there.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "BERTH_PROTOCOL=1"}
}

// What the command says with its exit status, besides 0; anything else is the
// host's fault.
const (
	exitRequest = 65  // EX_DATAERR of sysexits.h
	exitImage   = 66  // EX_NOINPUT
	exitTimeout = 124 // as timeout(1) exits
)

// lingers is how long an ended call's processes may hold its output open. A host that stands still for that long
// between the end of a call and the end of its output fails a good call.
const lingers = 5 * time.Second

// call is one run of the command.
type call struct {
	verb     string
	instance compute.InstanceID // none for those about the whole host
	lines    []any              // what it reads, each as a line of JSON
	answer   any                // what it prints is decoded into this; nil: nobody looks
	patience time.Duration      // besides the usual
}

// do runs the command and waits until it has ended. If the context ends, or
// patience does, every process of the call is killed that has not made itself a
// session of its own.
func (d *Driver) do(ctx context.Context, c call) error {
	if ctx.Err() != nil {
		return d.ended(ctx, c)
	}
	patience, cancel := context.WithTimeout(ctx, d.o.Timeout+c.patience)
	defer cancel()
	in, err := stdin(c.lines)
	if err != nil {
		return err
	}
	args := append(d.o.Command[1:len(d.o.Command):len(d.o.Command)], c.verb)
	if c.instance != "" {
		args = append(args, string(c.instance))
	}
	cmd := exec.CommandContext(patience, d.o.Command[0], args...)
	out, said := &page{full: cancel}, &hypervisor.Said{}
	cmd.Stdin, cmd.Stderr, cmd.Env, cmd.Dir = in, said, environment(), "/"
	if c.answer != nil {
		cmd.Stdout = out
	}
	subprocess.InSession(cmd)
	cmd.WaitDelay = d.lingers
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return d.ended(ctx, c)
	case out.tooMuch:
		return d.fail(c, fmt.Sprintf("printed more than %d bytes: let it print less", mostPrinted), said)
	case errors.Is(err, exec.ErrWaitDelay): // which only one that was not killed answers
		killRest(cmd.Process.Pid)
		return d.fail(
			c,
			"has ended, but a process that it left behind holds its stdout or stderr: let it redirect both "+
				"before it goes to the background",
			said,
		)
	case err != nil && patience.Err() != nil:
		e := d.fail(
			c,
			fmt.Sprintf(
				"did not end within %s and was killed: see what it waits for, or raise driver.exec.timeout",
				d.o.Timeout+c.patience,
			),
			said,
		)
		e.Class = compute.FailureTimeout
		return e
	case err != nil:
		return d.exited(c, err, said)
	case c.answer != nil:
		return d.decode(c, out.b.Bytes(), said)
	}
	return nil
}

// killRest ends what is left of a session after its leader is buried. The leader's number is nobody else's as long as
// there is a rest; if somebody has it, there is none.
func killRest(leader int) {
	if errors.Is(syscall.Kill(leader, 0), syscall.ESRCH) {
		_ = syscall.Kill(-leader, syscall.SIGKILL)
	}
}

func stdin(lines []any) (io.Reader, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return nil, err
		}
	}
	return &b, nil
}

func (d *Driver) decode(c call, b []byte, said *hypervisor.Said) error {
	var v struct {
		Version int `json:"version"`
	}
	err := json.Unmarshal(b, &v)
	if err == nil && v.Version != version {
		err = fmt.Errorf("\"version\" is %d, and has to be %d", v.Version, version)
	}
	if err == nil {
		err = json.Unmarshal(b, c.answer)
	}
	if err != nil {
		return d.fail(
			c,
			fmt.Sprintf(
				"answers %q, which is not the JSON asked for (%v): let it print that and nothing else, and "+
					"complain on stderr",
				short(string(b)),
				err,
			),
			said,
		)
	}
	return nil
}

// name is a call as an operator would type it.
func (d *Driver) name(c call) string {
	return strings.TrimSpace(strings.Join(d.o.Command, " ") + " " + c.verb + " " + string(c.instance))
}

func (d *Driver) ended(ctx context.Context, c call) error {
	return fmt.Errorf("%s: %w", d.name(c), ctx.Err())
}

// exited is the class of an exit status.
func (d *Driver) exited(c call, err error, said *hypervisor.Said) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return d.fail(
			c,
			fmt.Sprintf(
				"cannot be run (%v): put it there, executable for the agent's user, with an interpreter that exists",
				err,
			),
			said,
		)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return d.fail(
			c,
			fmt.Sprintf(
				"was ended by a signal (%s): see what killed it, the kernel for lack of memory perhaps",
				status.Signal(),
			),
			said,
		)
	}
	e := d.fail(
		c, fmt.Sprintf("failed with exit status %d: mend what it complains of, or try it by hand", exit.ExitCode()),
		said,
	)
	switch exit.ExitCode() {
	case exitRequest:
		e.Class, e.Message = compute.FailureRequest, d.says(c, "refuses the request", said)
	case exitImage:
		if c.verb == "prepare" {
			e.Image, e.Message = true, d.says(c, "cannot use the image on this host", said)
		}
	case exitTimeout:
		e.Class, e.Message = compute.FailureTimeout, d.says(c, "gave up in time", said)
	}
	return e
}

func (d *Driver) fail(c call, what string, said *hypervisor.Said) *hypervisor.Error {
	return &hypervisor.Error{Class: compute.FailureHost, Message: d.says(c, what, said)}
}

func (d *Driver) says(c call, what string, said *hypervisor.Said) string {
	message := d.name(c) + " " + what
	if last := said.Lines(); last != "" {
		message += "; it said: " + last
	}
	return message
}

// SPDX-License-Identifier: Apache-2.0

// Package fencecommand makes certain that a host is dead, by a command of the operator's
// own: one that switches its power off and looks that it is off, say.
package fencecommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/subprocess"
)

// Command is a program with its arguments. The host's id is appended to them and
// is in the variable BERTH_HOST. It is certain that the host does not run, and
// cannot run on by itself, when the program exits with 0, and only then, whatever it
// leaves behind in the background. It may be run again for a host that is dead already.
type Command struct {
	Args []string // the program first
	// Timeout ends it, with every process of it that has not made itself a session of its own, and nothing is certain;
	// 0: 60 s.
	Timeout time.Duration
}

// outputGrace is how long an ended program's children may hold its output open.
const outputGrace = time.Second

// Fence runs the command; nil means that the host is dead for certain. The
// error ends with the last lines that the program wrote.
func (c Command) Fence(ctx context.Context, h compute.HostID) error {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var output tail
	cmd := exec.CommandContext(ctx, c.Args[0], append(c.Args[1:len(c.Args):len(c.Args)], string(h))...)
	cmd.Env = append(os.Environ(), "BERTH_HOST="+string(h))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, outputGrace
	// A child that is left would go on, and switch the host off after it was said that nothing is certain.
	subprocess.InSession(cmd)
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // which only one that exited with 0 answers
		return nil
	}
	why := err.Error()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "it did not end within " + timeout.String()
	}
	message := "it is not certain that the host is dead: the fence command failed: " + why
	if last := output.lines(); last != "" {
		message += fmt.Sprintf("; it said: %s", last)
	}
	return &compute.Error{
		Op: "fence", Kind: compute.KindConflict, Field: "host", Value: string(h), Message: message,
		Remedy: "see to it that the host is off, and say so: --fenced, or \"fenced\": true", Cause: err,
	}
}

// maxKept bounds what is remembered of the output, and mostLines what is shown.
const (
	maxKept  = 2 << 10
	maxLines = 5
)

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxKept; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// lines are the last ones, in one.
func (t *tail) lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Split(strings.ToValidUTF8(string(bytes.TrimSpace(t.kept)), "?"), "\n")
	all = all[max(0, len(all)-maxLines):]
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return strings.Join(all, " / ")
}

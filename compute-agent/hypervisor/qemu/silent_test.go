// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/pkg/compute"
)

// A QEMU that does not answer, as where its disk hangs: Start does not take it for running, and waits for longer than
// List does; a Stop whose caller has given up does not pull the plug.
func TestAQEMUThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("listening"))
	b.up(one)
	signal := func(s syscall.Signal) {
		t.Helper()
		for _, p := range b.processes() {
			b.ok(syscall.Kill(p.PID, s))
		}
	}
	signal(syscall.SIGSTOP)
	for what, call := range map[string]func(context.Context) error{
		"Stop":  func(ctx context.Context) error { return d.Stop(ctx, one, time.Hour) },
		"Start": func(ctx context.Context) error { return d.Start(ctx, one) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s answers %v", what, err)
		}
		cancel()
	}
	signal(syscall.SIGCONT)
	if m := b.only(d); m.Power != compute.PowerRunning {
		t.Errorf("it goes on, and List gives %+v", m)
	}
	b.pause(one)
	signal(syscall.SIGSTOP)
	time.AfterFunc(statusTime+time.Second, func() { signal(syscall.SIGCONT) })
	began := time.Now()
	err := d.Start(t.Context(), one)
	for errors.Is(err, errSilent) && time.Since(began) >= commandTime { // it was silent for longer than it was to be
		began, err = time.Now(), d.Start(t.Context(), one)
	}
	b.ok(err)
	if m := b.only(d); m.Power != compute.PowerRunning {
		t.Errorf("it was paused and did not answer for a while, then it was started, and List gives %+v", m)
	}
	b.ok(d.Stop(t.Context(), one, time.Hour))
	if m := b.only(d); !strings.Contains(m.Detail, "the guest shut down") {
		t.Errorf("its guest was asked, and List gives %+v", m)
	}
}

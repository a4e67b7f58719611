package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// An agent whose disk is full when it starts waits, says for what, and goes on by
// itself; its hypervisor is opened once.
func TestAgentWaitsForRoom(t *testing.T) {
	host := smallHost(1)
	r := newRig(t, kafkatest.Embedded(t), host)
	r.startQueues()
	r.startAPI()
	on, err := r.world.Host(host.ID, host.Inventory)
	r.must(err)
	var room atomic.Bool
	var opens, says atomic.Int32
	c := r.prepared("agent")
	c.waiting = func(why string) {
		if !strings.Contains(why, "make room there") {
			t.Errorf("it waits for %s", why)
		}
		says.Add(1)
	}
	o := agentOptions{Host: host.ID, State: r.data, Timing: chatty,
		Journal: journal.Options{OpenFile: func(name string, flag int, perm fs.FileMode) (*os.File, error) {
			if !room.Load() {
				return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
			}
			return os.OpenFile(name, flag, perm)
		}}}
	r.start("agent", eager{opened(c, o, func(context.Context) (hypervisor.Driver, error) {
		opens.Add(1)
		return fake.NewDriver(on, host.Driver), nil
	})})
	r.poll("it says twice that it waits", func() bool { return says.Load() > 1 })
	room.Store(true)
	r.known(host)
	if n := opens.Load(); n != 1 {
		t.Errorf("its hypervisor was opened %d times", n)
	}
}

// A hypervisor that finds no room is opened again; any other fault ends the agent, and so
// does its own end.
func TestWithRoom(t *testing.T) {
	var c cell
	c.waiting = func(string) {}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		n := 0
		got, err := withRoom(t.Context(), c, func(context.Context) (int, error) {
			if n++; n == 1 {
				return 0, &fs.PathError{Op: "write", Path: ".probe", Err: full}
			}
			return 7, nil
		})
		if got != 7 || err != nil || n != 2 {
			t.Errorf("%v: %d, %v, after %d tries", full, got, err, n)
		}
	}
	broken := errors.New("broken")
	_, err := withRoom(t.Context(), c, func(context.Context) (int, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("a fault of another kind is answered %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.waiting = func(string) { cancel() }
	_, err = withRoom(ctx, c, func(context.Context) (int, error) { return 0, syscall.ENOSPC })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("told to end, it answers %v", err)
	}
}

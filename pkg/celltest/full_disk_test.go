// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// An agent whose disk is full when it starts waits, says for what, and goes on by
// itself; its hypervisor is opened once.
func TestAgentWaitsForRoom(t *testing.T) {
	t.Parallel()
	host := smallHost(1)
	r := newRig(t, kafkatest.Embedded(t), host)
	r.startQueues()
	r.startAPI()
	on, err := r.world.Host(host.ID, host.Inventory)
	r.must(err)
	var room atomic.Bool
	var opens, says atomic.Int32
	c := r.prepared("agent")
	c.Waiting = func(why string) {
		if !strings.Contains(why, "make room there") {
			t.Errorf("it waits for %s", why)
		}
		says.Add(1)
	}
	o := cell.AgentOptions{Host: host.ID, State: r.data, Timing: chatty,
		Journal: journal.Options{OpenFile: func(name string, flag int, perm fs.FileMode) (*os.File, error) {
			if !room.Load() {
				return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
			}
			return os.OpenFile(name, flag, perm)
		}}}
	o.Open = func() (hypervisor.Driver, error) {
		opens.Add(1)
		return fake.NewDriver(on, host.Driver), nil
	}
	r.begin("agent", cell.AgentPart(c, o))
	r.poll("it says twice that it waits", func() bool { return says.Load() > 1 })
	room.Store(true)
	r.known(host)
	if n := opens.Load(); n != 1 {
		t.Errorf("its hypervisor was opened %d times", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/compute-agent/hypervisor/placeholder"
	"github.com/berth-project/berth/pkg/compute"
)

// bench is an empty host of the world that open gives: the same one in memory,
// a new look at the same files in a folder.
type bench struct {
	t     *testing.T
	open  func() *fake.World
	world *fake.World // to look at from outside
	host  *fake.Host  // of the driver opened last

	spoilt atomic.Bool
	mu     sync.Mutex
	deaf   map[compute.InstanceID]bool
}

func subject(t *testing.T, open func() *fake.World) hypervisortest.Subject {
	b := &bench{t: t, open: open, world: open(), deaf: map[compute.InstanceID]bool{}}
	b.look()
	return hypervisortest.Subject{
		// The first driver stays in use beside the reopened one in some of the
		// suite's checks, so both must look at one host: in a folder, the last
		// reopened is it.
		Driver:    &follow{now: func() *fake.Driver { return b.driver(nil) }},
		Reopen:    func() hypervisor.Driver { b.look(); return b.driver(nil) },
		Launches:  b.launches,
		Left:      b.left,
		Resources: small,
		Broken: []hypervisortest.Breakage{
			{Name: "no such image", Class: compute.FailureRequest, Break: func(*hypervisor.Spec) func() {
				b.spoilt.Store(true)
				return func() { b.spoilt.Store(false) }
			}},
		},
		Crashes: []hypervisortest.Crash{
			b.dies("Prepare", false), b.dies("Prepare", true), b.dies("Launch", false), b.dies("Launch", true),
		},
		Kill:      func(id compute.InstanceID) { b.ok(b.host.Kill(id)) },
		Pause:     func(id compute.InstanceID) { b.ok(b.host.Pause(id)) },
		Foreign:   b.foreign,
		Listening: func(*hypervisor.Spec) {},
		Deaf: func(s *hypervisor.Spec) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.deaf[s.Instance] = true
		},
		Goodbye: "the guest shut down",
		Up:      func(compute.InstanceID) {},
	}
}

// under is a subject of which the driver keeps placeholders, too: as notes in a folder.
func under(t *testing.T, s hypervisortest.Subject) hypervisortest.Subject {
	folder := filepath.Join(t.TempDir(), "h1.placeholders")
	over := func(d hypervisor.Driver) hypervisor.Driver {
		o, err := placeholder.Over(d, folder, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	below, reopen, left := s.Driver, s.Reopen, s.Left
	s.Driver, s.Reopen = over(below), func() hypervisor.Driver { return over(reopen()) }
	for i, c := range s.Crashes {
		s.Crashes[i].Driver = func() hypervisor.Driver { return over(c.Driver()) }
	}
	s.Left = func() []string {
		notes, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return append(left(), notes...)
	}
	return s
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) look() {
	h, err := b.open().Host("h1", big)
	b.ok(err)
	b.host = h
}

func (b *bench) driver(fault func(fake.Call) *fake.Fault) *fake.Driver {
	return fake.NewDriver(b.host, fake.Options{
		Deaf: func(id compute.InstanceID) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.deaf[id]
		},
		Fault: func(c fake.Call) *fake.Fault {
			switch {
			case fault != nil:
				return fault(c)
			case c.Method == "Prepare" && b.spoilt.Load():
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureRequest, Message: "no such image"}}
			}
			return nil
		},
	})
}

func (b *bench) dies(method string, after bool) hypervisortest.Crash {
	return hypervisortest.Crash{
		Name: fmt.Sprintf("%s done %t", method, after),
		Driver: func() hypervisor.Driver {
			return b.driver(func(c fake.Call) *fake.Fault {
				if c.Method == method {
					return &fake.Fault{Err: hypervisor.ErrCrash, After: after}
				}
				return nil
			})
		},
	}
}

// launches are counted since the instance was last destroyed.
func (b *bench) launches(id compute.InstanceID) (n int) {
	events, err := b.world.Events()
	b.ok(err)
	for _, e := range events {
		switch {
		case e.Instance == id && e.Kind == fake.Launched:
			n++
		case e.Instance == id && e.Kind == fake.Destroyed:
			n = 0
		}
	}
	return n
}

func (b *bench) left() (left []string) {
	for _, m := range b.host.Machines() {
		left = append(left, string(m.Instance))
	}
	return left
}

func (b *bench) foreign() (compute.Resources, func() bool) {
	uses := compute.Resources{compute.VCPU: 3, compute.MemoryMB: 77}
	b.host.SetForeign(
		compute.Foreign{Name: "old", PID: 7, Uses: uses}, compute.Foreign{Name: "older", PID: 8, Uses: small},
	)
	return uses, func() bool { return true }
}

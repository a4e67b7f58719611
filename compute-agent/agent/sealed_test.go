// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
)

// spy sees what a hypervisor is given.
type spy struct {
	hypervisor.Driver
	mu    sync.Mutex
	specs []hypervisor.Spec
}

func (s *spy) Prepare(ctx context.Context, spec hypervisor.Spec) error {
	s.mu.Lock()
	s.specs = append(s.specs, spec)
	s.mu.Unlock()
	return s.Driver.Prepare(ctx, spec)
}

// given is the user data that each instance was prepared with.
func (s *spy) given() map[compute.InstanceID]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[compute.InstanceID]string{}
	for _, spec := range s.specs {
		all[spec.Instance] = string(spec.UserData)
	}
	return all
}

// sealedFor is user data sealed for the nth instance.
func sealedFor(t *testing.T, keys *sealed.Keys, n int) func(*compute.Build) {
	s, err := keys.Seal(sealed.Owner{Project: "p", Instance: id(n)}, []byte("a secret"))
	if err != nil {
		t.Fatal(err)
	}
	return func(b *compute.Build) { b.Sealed = s }
}

// TestSealedWork: a host without the key leaves it in its queue, begins none of it, counts no attempt and says which
// key it lacks; what lies behind it is built. With the key the machine gets its user data as it was before.
func TestSealedWork(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		keys, seen := sealed.New("", hostkey.NewMaster([32]byte{1})), &spy{}
		with := func(keys *sealed.Keys) func(*Options) {
			return func(o *Options) {
				seen.Driver = o.Driver
				o.Driver, o.Keys = seen, keys
			}
		}
		n := c.start(dir, fake.Options{}, with(nil))
		pass(time.Second)
		c.boot(1, "small", sealedFor(t, keys, 1))
		c.boot(2, "small", func(b *compute.Build) { b.UserData = []byte("open") })
		pass(5 * time.Minute)
		c.want(compute.StateQueued, compute.StateActive)
		c.mu.Lock()
		said := c.beacons[len(c.beacons)-1]
		if !slices.ContainsFunc(said.Warnings, func(w string) bool { return strings.Contains(w, string(keys.IDs()[0])) }) ||
			said.Opens != nil {
			t.Errorf("its beacon warns of %q, and it opens %v", said.Warnings, said.Opens)
		}
		if x := c.insts[id(1)]; x.attempt != 1 || len(c.rejected) > 0 {
			t.Errorf("attempt %d, rejected %v", x.attempt, c.rejected)
		}
		c.mu.Unlock()
		stop(c, n)

		n = c.start(dir, fake.Options{}, with(keys))
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateActive)
		if got := seen.given(); got[id(1)] != "a secret" || got[id(2)] != "open" {
			t.Errorf("they were given %q", got)
		}
		c.mu.Lock()
		if said := c.beacons[len(c.beacons)-1]; len(said.Warnings) > 0 || !slices.Equal(said.Opens, keys.IDs()) {
			t.Errorf("its beacon warns of %q, and it opens %v", said.Warnings, said.Opens)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// TestSealedForAnother: what was sealed for another instance is given to no guest, whoever put it into this one's boot.
func TestSealedForAnother(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		keys, seen := sealed.New("", hostkey.NewMaster([32]byte{1})), &spy{}
		n := c.start(dir, fake.Options{}, func(o *Options) {
			seen.Driver = o.Driver
			o.Driver, o.Keys = seen, keys
		})
		pass(time.Second)
		c.boot(1, "small", sealedFor(t, keys, 7))
		c.boot(2, "small", func(b *compute.Build) { b.Sealed = "no such thing" })
		pass(time.Minute)
		c.want(compute.StateError, compute.StateError)
		if got := seen.given(); len(got) > 0 {
			t.Errorf("they were given %q", got)
		}
		stop(c, n)
	})
}

// TestSealedPinnedWork ends at once, with the reason, on a host without the key.
func TestSealedPinnedWork(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		keys := sealed.New("", hostkey.NewMaster([32]byte{1}))
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.pinBuild(compute.Build{Instance: id(1), Project: "p", Attempt: 1, Queue: "small", Resources: small},
			sealedFor(t, keys, 1))
		pass(20 * time.Second)
		c.want(compute.StateError)
		c.mu.Lock()
		i := slices.IndexFunc(c.reports, func(r compute.Report) bool { return r.Op == compute.ReportPinned })
		if i < 0 || !strings.Contains(c.reports[i].Message, string(keys.IDs()[0])) {
			t.Errorf("it says %+v", c.reports)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// TestSealedBegunAndKeyGone: an agent that took work and lost the key fails the attempt as its host's fault, for
// others may have the key; what opens nowhere is the request's.
func TestSealedBegunAndKeyGone(t *testing.T) {
	keys := sealed.New("", hostkey.NewMaster([32]byte{1}))
	b := compute.Build{Project: "p", Instance: id(1)}
	sealedFor(t, keys, 1)(&b)
	another := b
	another.Instance = id(2)
	for _, c := range []struct {
		keys *sealed.Keys
		b    compute.Build
		want compute.FailureClass
	}{{nil, b, compute.FailureHost}, {keys, another, compute.FailureRequest}} {
		_, err := prepare(nil, c.keys, task.Task{}, c.b)(t.Context())
		var e *hypervisor.Error
		if !errors.As(err, &e) || e.Class != c.want {
			t.Errorf("with %v: %v, want class %v", c.keys, err, c.want)
		}
	}
}

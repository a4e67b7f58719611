// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// troubles are what is wrong with hypervisors now.
type troubles struct {
	mu  sync.Mutex
	now []*trouble
}

type trouble struct {
	schedule.Fault
	left int       // calls it still spoils; negative: all
	ends time.Time // whatever hangs by then
	hit  bool      // it has spoiled something
}

func (t *troubles) begin(f schedule.Fault) *trouble {
	x := &trouble{Fault: f, left: f.Nth, ends: time.Now().Add(f.For.Duration())}
	if x.left == 0 {
		x.left = -1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = append(t.now, x)
	return x
}

// spent says whether it spoils nothing more.
func (t *troubles) spent(x *trouble) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return x.left == 0
}

// came says whether it has spoiled anything.
func (t *troubles) came(x *trouble) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return x.hit
}

func (t *troubles) find(host compute.HostID, method string) *trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.now {
		if x.Who == string(host) && x.Key == method && x.left != 0 && time.Now().Before(x.ends) {
			x.left--
			x.hit = true
			return x
		}
	}
	return nil
}

// fault answers what goes wrong with a call. One that hangs fails when the
// trouble is over, unless its caller gives up before.
func (t *troubles) fault(c fake.Call) *fake.Fault {
	x := t.find(c.Host, c.Method)
	if x == nil {
		return nil
	}
	f := &fake.Fault{After: x.After, Slow: x.By.Duration()}
	if x.Hang {
		f.Slow = time.Until(x.ends)
	}
	if x.Hang || x.Code != "" {
		f.Err = &hypervisor.Error{Class: classOf(x.Code), Message: "simulated"}
	}
	return f
}

func classOf(name string) compute.FailureClass {
	for _, c := range []compute.FailureClass{compute.FailureHost, compute.FailureTimeout, compute.FailureRequest} {
		if c.String() == name {
			return c
		}
	}
	return compute.FailureUnknown
}

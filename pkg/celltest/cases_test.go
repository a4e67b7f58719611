// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// each runs a case on both brokers, beside each other and others: most of a case is waiting.
func each(t *testing.T, try func(t *testing.T, b kafkatest.Broker)) {
	t.Helper()
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		t.Parallel()
		try(t, b)
	})
}

// gate holds up one kind of call of a driver until it is opened.
type gate struct {
	method  string
	arrived chan compute.InstanceID
	open    chan struct{}
	once    sync.Once
}

func newGate(t *testing.T, method string) *gate {
	g := &gate{method: method, arrived: make(chan compute.InstanceID, 100), open: make(chan struct{})}
	t.Cleanup(g.release)
	return g
}

func (g *gate) fault(c fake.Call) *fake.Fault {
	if c.Method == g.method {
		g.arrived <- c.Instance
		<-g.open
	}
	return nil
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// broken is a hypervisor that fails one kind of call.
func broken(method string, class compute.FailureClass) func(fake.Call) *fake.Fault {
	return func(c fake.Call) *fake.Fault {
		if c.Method != method {
			return nil
		}
		return &fake.Fault{Err: &hypervisor.Error{Class: class, Message: "broken for the test"}}
	}
}

func hostWith(n int, fault func(fake.Call) *fake.Fault) cell.SimulatedHost {
	h := smallHost(n)
	h.Driver.Fault = fault
	return h
}

// oneFlavor is a rig with one flavor on these hosts.
func oneFlavor(t *testing.T, b kafkatest.Broker, hosts ...cell.SimulatedHost) (*rig, *client.Client) {
	t.Helper()
	r := newRig(t, b, hosts...)
	return r, r.upWithOne()
}

// upWithOne starts everything, and offers one flavor.
func (r *rig) upWithOne() *client.Client {
	r.t.Helper()
	c := r.up().as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	return c
}

// launches says how often the instance was launched, as seen from outside.
func (r *rig) launches(id compute.InstanceID) int {
	r.t.Helper()
	n, err := r.world.Count(fake.Launched)
	r.must(err)
	return n[id]
}

// empty waits until no host has any machine.
func (r *rig) empty() {
	r.t.Helper()
	r.poll("no machines left", func() bool {
		for _, h := range r.world.Hosts() {
			if len(h.Machines()) > 0 {
				return false
			}
		}
		return true
	})
}

func TestDeleteWhileQueued(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b)
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateQueued)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		// The work is still in the queue: a host that claims it is denied.
		r.startAgents(smallHost(1))
		later := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.await(later, compute.StateActive)
		r.exactlyOnce(later)
	})
}

func TestDeleteWhilePreparing(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		g := newGate(t, "Prepare")
		r, c := oneFlavor(t, b, hostWith(1, g.fault))
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		<-g.arrived
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		g.release()
		r.empty()
		if n := r.launches(ids[0]); n != 0 {
			t.Errorf("deleted while preparing, and launched %d times", n)
		}
	})
}

func TestDeleteWhileStarting(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		g := newGate(t, "Launch")
		r, c := oneFlavor(t, b, hostWith(1, g.fault))
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		<-g.arrived
		r.await(ids, compute.StateStarting)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleting)
		r.uses(c, compute.Instances, 1) // it may run: the quota is not back yet
		g.release()
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		r.empty()
	})
}

func TestDeleteTwiceAndAfterTheEnd(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHost(1))
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.delete(c, ids)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.delete(c, ids)
		version := r.seen.get(ids[0]).Version
		next := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.await(next, compute.StateActive) // the third delete was read before this
		if got := r.seen.get(ids[0]).Version; got != version {
			t.Errorf("a delete of what is deleted changed it: version %d, was %d", got, version)
		}
		r.sane()
	})
}

// A delete of an id nobody knows wins over a boot with that id that lands later.
func TestDeleteBeforeItsBoot(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHost(1))
		id := compute.InstanceID(uuid.NewString())
		r.publish(compute.Request{Project: "p", Instance: id, Op: compute.OpDelete})
		r.await([]compute.InstanceID{id}, compute.StateDeleted)
		boot := compute.Boot{Flavor: "m1.small"}
		r.publish(compute.Request{Project: "p", Instance: id, Op: compute.OpBoot, Boot: &boot})
		later := r.boot(c, 1, boot)
		r.await(later, compute.StateActive)
		if s := r.seen.get(id).State; s != compute.StateDeleted {
			t.Errorf("deleted before it was booted, and now %s", s)
		}
		r.exactlyOnce(later)
	})
}

// publish writes a request as an API node would, past the API.
func (r *rig) publish(req compute.Request) {
	r.t.Helper()
	r.send(wire.EncodeRequest(req).To(r.cell("").Topics().Requests(), wire.AnyPartition))
}

// send writes records past all of Berth.
func (r *rig) send(recs ...wire.Record) {
	r.t.Helper()
	p, err := write.NewProducer(r.cell("publisher").Kafka)
	r.must(err)
	defer p.Close()
	r.must(p.Send(r.t.Context(), recs...))
}

func TestPinnedGoesToItsHost(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(3)...)
		ids := r.boot(c, 5, compute.Boot{Flavor: "m1.small", Host: "host-02"})
		r.await(ids, compute.StateActive)
		for _, id := range ids {
			if h := r.seen.get(id).Host; h != "host-02" {
				t.Errorf("pinned to host-02, and on %s", h)
			}
		}
		r.exactlyOnce(ids)
	})
}

func TestPinnedThatDoesNotFitSaysSo(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(2)...)
		full := r.boot(c, 16, compute.Boot{Flavor: "m1.small", Host: "host-01"})
		r.await(full, compute.StateActive)
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small", Host: "host-01"})
		r.await(ids, compute.StateError)
		r.reason(ids[0], compute.PinnedHostUnavailable)
		r.exactlyOnce(full)
	})
}

func (r *rig) reason(id compute.InstanceID, want compute.ReasonCode) {
	r.t.Helper()
	inst := r.seen.get(id)
	if inst.Reason == nil || inst.Reason.Code != want {
		r.t.Errorf("%s ended with %s, want %s", id, inst.Reason, want)
	}
}

func TestAvoidedHostNeverGetsIt(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(3)...)
		ids := r.boot(c, 8, compute.Boot{Flavor: "m1.small", Avoid: []compute.HostID{"host-01", "host-03"}})
		r.await(ids, compute.StateActive)
		for _, id := range ids {
			if h := r.seen.get(id).Host; h != "host-02" {
				t.Errorf("avoids host-01 and host-03, and is on %s", h)
			}
		}
		r.exactlyOnce(ids)
	})
}

func TestFailedAttemptGoesElsewhere(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, hostWith(1, broken("Prepare", compute.FailureHost)), smallHost(2))
		ids := r.boot(c, 6, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		for _, id := range ids {
			if h := r.seen.get(id).Host; h != "host-02" {
				t.Errorf("host-01 is broken, and %s is active there", id)
			}
		}
		r.exactlyOnce(ids)
	})
}

func TestAttemptsExhausted(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		var hosts []cell.SimulatedHost
		for i := range 3 {
			hosts = append(hosts, hostWith(i+1, broken("Launch", compute.FailureHost)))
		}
		r, c := oneFlavor(t, b, hosts...)
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small", Attempts: 2})
		r.await(ids, compute.StateError)
		r.reason(ids[0], compute.AttemptsExhausted)
		inst := r.seen.get(ids[0])
		if len(inst.Failures) != 2 || inst.Failures[0].Host == inst.Failures[1].Host || inst.Failures[0].Message == "" {
			t.Errorf("two attempts on two hosts, and the record tells %+v", inst.Failures)
		}
		r.unused(c)
		r.empty()
	})
}

func TestTheRequestsOwnFaultIsNotTriedAgain(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(
			t,
			b,
			hostWith(1, broken("Prepare", compute.FailureRequest)),
			hostWith(2, broken("Prepare", compute.FailureRequest)),
		)
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small", Image: "no-such-image"})
		r.await(ids, compute.StateError)
		r.reason(ids[0], compute.BuildFailed)
		if n := len(r.seen.get(ids[0]).Failures); n != 1 {
			t.Errorf("tried %d times", n)
		}
	})
}

func TestDeadlineEndsTheWait(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b)
		ids := r.boot(c, 2, compute.Boot{Flavor: "m1.small", Deadline: 2 * time.Second})
		r.await(ids, compute.StateError)
		for _, id := range ids {
			r.reason(id, compute.DeadlineExceeded)
		}
		r.unused(c)
	})
}

func TestFailAtOnceTellsWhatIsMissing(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHost(1))
		huge := small("m1.huge")
		huge.Resources[compute.VCPU] = 1000
		r.offer(c, nil, []compute.Flavor{huge})
		r.failsAtOnce(c, "m1.huge", compute.NeverFits)
		r.unused(c)
	})
}

func TestQuotaIsExactUnderARush(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(3)...)
		_, err := c.SetQuota(t.Context(), compute.Quota{Project: "p", Limits: compute.Resources{compute.Instances: 10}})
		r.must(err)
		r.offer(c, nil, []compute.Flavor{small("m1.rush")}) // a conductor that has read of it has read of the quota before it
		ids := r.bootAtRate("p", 30, 1000, func(i int) compute.Boot {
			return compute.Boot{Flavor: "m1.rush", Name: fmt.Sprint("vm", i)}
		})
		r.seen.await(t, "all decided", func(now map[compute.InstanceID]compute.Instance) bool {
			for _, id := range ids {
				if s := now[id].State; s != compute.StateActive && s != compute.StateError {
					return false
				}
			}
			return true
		})
		active := 0
		for _, id := range ids {
			switch r.seen.get(id).State {
			case compute.StateActive:
				active++
			case compute.StateError:
				r.reason(id, compute.QuotaExceeded)
			}
		}
		if active != 10 {
			t.Errorf("%d of 10 allowed are active", active)
		}
		r.uses(c, compute.Instances, 10)
	})
}

func TestRepeatedBootChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHost(1))
		id := compute.InstanceID(uuid.NewString())
		for range 5 {
			_, err := c.Boot(t.Context(), id, compute.Boot{Flavor: "m1.small"})
			r.must(err)
		}
		r.await([]compute.InstanceID{id}, compute.StateActive)
		r.uses(c, compute.Instances, 1)
		r.exactlyOnce([]compute.InstanceID{id})
	})
}

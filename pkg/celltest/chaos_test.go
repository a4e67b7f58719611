// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
)

// brokers is a cluster under attack. Its brokers are numbered from 1.
type brokers interface {
	Addrs() []string
	Nodes() int
	Kill(id int) error // at once
	Stop(id int) error // in order
	Restart(ctx context.Context, id int) error
	Pause(id int) error
	Resume(id int) error
}

// form is how much chaos there is.
type form struct {
	name   string
	agents int // one to a host
	rack   int // of the agents, in one process that can be killed
	rate   int // boots a second
	full   int // per cent of the room there is that machines take before the oldest are deleted
	some   int // so many boots say that placement goes on
	level  level
}

// level says from which form on a fault belongs to it.
type level int

const (
	inEvery level = iota
	inShort
	inFull
)

var (
	// A rack of five that is alone must have room for some: half of it.
	leastForm = form{name: "least", agents: 20, rack: 5, rate: 10, full: 50, some: 10, level: inEvery}
	shortForm = form{name: "short", agents: 20, rack: 5, rate: 10, full: 50, some: 10, level: inShort}
	fullForm  = form{name: "full", agents: 100, rack: 20, rate: 50, full: 70, some: 50, level: inFull}
)

// session is how long a broker may say nothing before the others go on without
// it, and how long it is frozen or cut off: longer.
const (
	session     = 3 * time.Second
	longerThan  = 8 * time.Second
	perHost     = 16 // small machines
	projects    = 16
	chaosQueues = 4
)

// fastBrokers are the settings that README recommends.
func fastBrokers() map[string]string {
	return map[string]string{
		"replica.lag.time.max.ms":      "5000",
		"broker.session.timeout.ms":    fmt.Sprint(session.Milliseconds()),
		"broker.heartbeat.interval.ms": "500",
	}
}

// chosen is the form that BERTH_CHAOS asks for; without it there is no chaos:
// it takes minutes.
func chosen(t *testing.T) form {
	t.Helper()
	asked := os.Getenv("BERTH_CHAOS")
	for _, f := range []form{leastForm, shortForm, fullForm} {
		if f.name != asked {
			continue
		}
		if rate := os.Getenv("BERTH_CHAOS_RATE"); rate != "" {
			var err error
			if f.rate, err = strconv.Atoi(rate); err != nil || f.rate < 1 {
				t.Fatalf("BERTH_CHAOS_RATE=%s: give a number of boots a second", rate)
			}
		}
		return f
	}
	if asked != "" {
		t.Fatalf("BERTH_CHAOS=%s: give least, short or full", asked)
	}
	t.Skip("skipped: minutes of broken brokers; BERTH_CHAOS=least, short or full")
	return form{}
}

// chaos is a Berth under load, of processes and of agents in this one, on
// brokers that something is done to.
type chaos struct {
	*rig
	form
	on          brokers
	leads       *kafkatest.Leads
	line        *line        // of the agents in this process
	brokerLines *brokerLines // of a conductor in this process
	makes       map[string]func() *process
	running     map[string]*process
	users       []*client.Client
	flavors     []compute.Flavor
	load        *stream
	queue       client.Queue // one of them
	rows        []*row
	where       string
}

// Brokers, conductors, API nodes and agents are killed, frozen and cut off under
// load: nothing that was accepted is lost, nothing runs twice, and placement
// goes on by itself.
func TestChaos(t *testing.T) {
	f := chosen(t)
	on, where, own := attacked(t, f)
	c := newChaos(t, f, on)
	c.where = where
	c.suffers(slices.Concat(own, trusting(), faults()))
}

// newChaos starts everything, and the load.
func newChaos(t *testing.T, f form, on brokers) *chaos {
	t.Helper()
	r := newRig(t, kafkatest.Broker{Addrs: on.Addrs(), Prefix: "chaos.", Real: true})
	c := &chaos{
		rig:         r,
		form:        f,
		on:          on,
		line:        newLine(),
		brokerLines: newBrokerLines(),
		makes:       map[string]func() *process{},
		running:     map[string]*process{},
	}
	var err error
	c.leads, err = kafkatest.AskLeads(on.Addrs())
	r.must(err)
	t.Cleanup(c.leads.Close)
	r.world, err = fake.OpenWorld(filepath.Join(r.data, "world"))
	r.must(err)
	apis := []string{c.addAPI("api-a"), c.addAPI("api-b")}
	r.api = apis[0]
	c.add("queues", "queues", map[string]any{})
	c.add("conductor-a", "conductor", map[string]any{"name": "conductor-a"})
	c.add("conductor-b", "conductor", map[string]any{"name": "conductor-b"})
	c.addRack("rack")
	for _, name := range []string{"queues", "conductor-a", "conductor-b", "api-a", "api-b", "rack"} {
		c.run(name)
	}
	c.startCuttable()
	if c.level >= inFull {
		c.startAlone()
	}
	c.offers()
	c.load = c.streams(apis)
	t.Cleanup(func() { c.tell() })
	return c
}

// add says how a process of Berth is started.
func (c *chaos) add(name, kind string, settings map[string]any) {
	c.makes[name] = func() *process { return c.daemonOf(name, kind, settings) }
}

func (c *chaos) run(name string) { c.running[name] = c.makes[name]() }

func (c *chaos) kill(name string) { c.running[name].kill() }

func (c *chaos) addAPI(name string) string {
	address := freeAddress(c.t)
	c.add(name, "api", map[string]any{"listen": address})
	return address
}

// addRack is some hosts whose agents die together.
func (c *chaos) addRack(name string) {
	c.add(name, "agent", map[string]any{
		"host": name, "state": filepath.Join(c.data, name),
		"driver": map[string]any{"kind": "fake", "fake": map[string]any{
			"world": filepath.Join(c.data, "world"), "hosts": c.rack,
			"totals": map[string]any{"VCPU": perHost, "MEMORY_MB": 64 << 10, "DISK_GB": 500},
		}},
	})
}

// startCuttable starts the agents that reach the brokers by the line.
func (c *chaos) startCuttable() {
	c.hosts = smallHosts(c.agents - c.rack)
	straight := c.net
	c.net.dial = c.line.dial
	c.startAgents(c.hosts...)
	c.net = straight
	c.known(c.hosts...)
}

// cuttable says whether a host's agent is one of these.
func (c *chaos) cuttable(h compute.HostID) bool {
	return slices.ContainsFunc(c.hosts, func(x cell.SimulatedHost) bool { return x.ID == h })
}

func (c *chaos) offers() {
	c.users = c.everywhere(projects, compute.Resources{compute.Instances: 1 << 20})
	for i := range chaosQueues {
		c.flavors = append(c.flavors, small(compute.FlavorName(fmt.Sprintf("m1.f%d", i))))
	}
	c.offer(c.users[0], nil, c.flavors)
	queues, err := c.users[0].Queues(c.t.Context(), c.flavors[0].Name)
	c.must(err)
	c.queue = queues[0]
}

// longSuffering is how long placement may stand before it is called lost: after
// an outage all that was asked for meanwhile comes first, and the machine may be slow.
const longSuffering = 10 * time.Minute

// goesOn waits until some boots that are asked for from now on are active.
func (c *chaos) goesOn(what string) {
	c.t.Helper()
	since, given := time.Now(), time.After(longSuffering)
	for {
		c.seen.mu.Lock()
		began, news, err := c.seen.began, c.seen.news, c.seen.err
		c.seen.mu.Unlock()
		c.must(err)
		if c.load.begunSince(began, since) >= c.some {
			return
		}
		select {
		case <-news:
		case <-given:
			c.t.Fatalf("%d boots active %s: not after %s; %s", c.some, what, longSuffering, c.seen.summary())
		}
	}
}

// whole waits until every broker has all it should, and leads its share.
func (c *chaos) whole() {
	c.t.Helper()
	why := ""
	c.poll("all brokers in sync", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
		defer cancel()
		ok, now := c.leads.Whole(ctx)
		if now != why && !ok {
			why = now
			c.t.Log("waiting:", why)
		}
		return ok
	})
	c.must(c.leads.Spread(c.t.Context()))
}

// suffers goes through the faults, then looks whether everything is as it should be.
func (c *chaos) suffers(all []fault) {
	c.t.Helper()
	only, err := regexp.Compile(os.Getenv("BERTH_CHAOS_FAULTS")) // empty: all
	c.must(err)
	c.load.begin()
	for _, f := range all {
		if f.level > c.level || !only.MatchString(f.name) {
			continue
		}
		if c.t.Failed() {
			break
		}
		c.suffer(f)
	}
	c.load.end()
	c.settled()
}

// suffer goes through one fault: it strikes, placement goes on or cannot, it is
// mended, placement goes on.
func (c *chaos) suffer(f fault) {
	c.t.Helper()
	c.whole()
	c.goesOn("before " + f.name)
	r := c.load.row(f)
	c.rows = append(c.rows, r)
	c.t.Log("now:", f.name)
	target, repair := f.inject(c)
	r.target = target
	if !f.stands {
		c.goesOn("during " + f.name)
	}
	service.Sleep(c.t.Context(), time.Until(r.from.Add(f.lasts))) // so long is the fault
	repair()
	r.healed = time.Now()
	c.whole()
	c.goesOn("after " + f.name)
	c.load.ends(r)
	r.judge(c.seen, c.load)
	c.t.Log(r.line())
}

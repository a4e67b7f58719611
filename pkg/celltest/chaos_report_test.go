// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// row is the account of one fault.
type row struct {
	fault, target    string
	from, healed, to time.Time
	said             map[string]int

	accepted      int
	lost, doubled int
	stall         time.Duration // longest in which no instance became active although some waited
	recovery      time.Duration // after the fault, until no pause was longer than a second
}

// judge finds the longest pauses of placement, as the witness saw it.
func (r *row) judge(w *witness, s *stream) {
	w.mu.Lock()
	began := slices.Clone(w.began)
	w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boots {
		if !b.accepted.IsZero() && b.accepted.After(r.from) && b.accepted.Before(r.to) {
			r.accepted++
		}
	}
	began = slices.DeleteFunc(began, func(b begun) bool {
		return s.boots[b.id] == nil || b.at.Before(r.from) || b.at.After(r.to)
	})
	waits := time.Time{} // since when something waited that is active in the end
	for i := len(began) - 1; i >= 0; i-- {
		if asked := s.boots[began[i].id].asked; waits.IsZero() || asked.Before(waits) {
			waits = asked
		}
		since := r.from
		if i > 0 {
			since = began[i-1].at
		}
		if waits.After(since) {
			since = waits
		}
		pause := began[i].at.Sub(since)
		r.stall = max(r.stall, pause)
		if pause > time.Second && r.recovery == 0 {
			r.recovery = began[i].at.Sub(r.from)
		}
	}
}

// settled looks whether all that was accepted is as it was asked for, runs once
// and leaves nothing behind.
func (c *chaos) settled() {
	c.t.Helper()
	c.come()
	active, deleted := c.load.wanted()
	c.became(active, compute.StateActive)
	c.became(deleted, compute.StateDeleted)
	for _, answer := range c.load.wrong {
		c.t.Error(answer)
	}
	c.judgeAll()
	if c.t.Failed() {
		c.whereLost(active, deleted)
		return
	}
	for _, u := range c.users {
		var own []compute.InstanceID
		for _, id := range active {
			if c.load.boots[id].project == u.Project() {
				own = append(own, id)
			}
		}
		c.poll("quota of "+string(u.Project()), func() bool { return c.used(u) == int64(len(own)) })
		c.delete(u, own)
	}
	c.await(active, compute.StateDeleted)
	for _, u := range c.users {
		c.unused(u)
	}
	c.judgeAll()
	c.clean()
}

// come waits until all are as they should be, or it is given up: then they are
// lost. What still waits needs room: the oldest go on being deleted.
func (c *chaos) come() {
	given := time.After(longSuffering)
	for {
		c.load.makeRoom()
		active, deleted := c.load.wanted()
		c.seen.mu.Lock()
		news, ok := c.seen.news, true
		for _, id := range active {
			ok = ok && c.seen.now[id].State == compute.StateActive
		}
		for _, id := range deleted {
			ok = ok && c.seen.now[id].State == compute.StateDeleted
		}
		c.seen.mu.Unlock()
		if ok {
			c.load.all.Wait() // for the last deletes to be answered
			return
		}
		select {
		case <-news:
		case <-given:
			return
		}
	}
}

// became holds every boot that was ever accepted, before, between and after the
// faults, against what was to become of it.
func (c *chaos) became(ids []compute.InstanceID, want compute.State) {
	c.t.Helper()
	for _, id := range ids {
		if state := c.seen.get(id).State; state != want {
			c.t.Errorf("%s is lost: %s, and was to be %s", id, state, want)
		}
	}
}

// whereLost counts what is not as it was to be by what it may have in common: its state, the
// conductors' partition that its project is in, its queue and its host.
func (c *chaos) whereLost(active, deleted []compute.InstanceID) {
	lost := map[string]int{}
	count := func(ids []compute.InstanceID, want compute.State) {
		for _, id := range ids {
			if i := c.seen.get(id); i.State != want {
				lost[fmt.Sprintf("%s in partition %d, queue %s, host %q", i.State, wire.Partition(i.Project, c.kafka.Partitions), i.Queue, i.Host)]++
			}
		}
	}
	count(active, compute.StateActive)
	count(deleted, compute.StateDeleted)
	for _, what := range slices.Sorted(maps.Keys(lost)) {
		c.t.Logf("%d %s", lost[what], what)
	}
	for _, f := range c.flavors {
		queues, err := c.users[0].Queues(c.t.Context(), f.Name)
		c.t.Logf("%s: %+v, %v", f.Name, queues, err)
	}
}

// judgeAll counts for every row what was lost and what ran twice.
func (c *chaos) judgeAll() {
	c.t.Helper()
	events, err := c.world.Events()
	c.must(err)
	launched := map[compute.InstanceID]int{}
	for _, e := range events {
		if e.Kind == fake.Launched {
			launched[e.Instance]++
		}
	}
	for _, r := range c.rows {
		r.lost, r.doubled = 0, 0
		for id, b := range c.load.boots {
			if b.accepted.IsZero() || b.accepted.Before(r.from) || b.accepted.After(r.to) {
				continue
			}
			if launched[id] > 1 {
				r.doubled++
				c.t.Errorf("%s was launched %d times", id, launched[id])
			}
			if state := c.seen.get(id).State; state != compute.StateDeleted && (b.gone || state != compute.StateActive) {
				r.lost++
				c.t.Errorf("%s is lost: %s", id, state)
			}
		}
	}
	c.sane()
}

// used is how many instances a project's quota counts.
func (c *chaos) used(u *client.Client) int64 {
	q, err := u.Quota(c.t.Context(), u.Project())
	c.must(err)
	for _, r := range q.Resources {
		if r.Class == compute.Instances {
			return r.Used
		}
	}
	return 0
}

// clean checks that no host holds anything any more.
func (c *chaos) clean() {
	c.t.Helper()
	c.poll("nothing on any host", func() bool {
		running := map[compute.InstanceID]bool{}
		events, err := c.world.Events()
		c.must(err)
		for _, e := range events {
			switch e.Kind {
			case fake.Launched, fake.Resumed:
				running[e.Instance] = true
			case fake.Destroyed:
				delete(running, e.Instance)
			}
		}
		return len(running) == 0
	})
	c.empty()
	c.poll("no host uses anything", func() bool {
		hosts, err := c.users[0].Hosts(c.t.Context())
		c.must(err)
		for _, h := range hosts {
			if h.Building > 0 || h.Free[compute.VCPU] != perHost {
				return false
			}
		}
		return len(hosts) == c.agents
	})
}

// line is the row for people.
func (r *row) line() string {
	var said []string
	for _, what := range slices.Sorted(maps.Keys(r.said)) {
		said = append(said, fmt.Sprintf("%s: %d", what, r.said[what]))
	}
	if said == nil {
		said = []string{"none"}
	}
	return fmt.Sprintf("| %s (%s) | %s | %d | %d, %d | %s | %s | %s |", r.fault, r.target, seconds(r.healed.Sub(r.from)),
		r.accepted, r.lost, r.doubled, seconds(r.stall), seconds(r.recovery), strings.Join(said, ", "))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

const heading = `| fault | lasted (s) | accepted | lost, doubled | longest stall (s) | recovered after (s) | clients were told |
|---|---|---|---|---|---|---|`

// tell prints the table, and writes it where BERTH_CHAOS_REPORT says.
func (c *chaos) tell() {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, the %s form: %d agents, %d boots/s, %d CPUs, %s, Kafka %s,\n%d brokers: %s.\n\n%s\n",
		time.Now().UTC().Format(time.DateOnly), c.name, c.agents, c.rate, runtime.NumCPU(), runtime.Version(), kafkatest.Version(), c.on.Nodes(), c.where, heading)
	for _, r := range c.rows {
		fmt.Fprintln(&b, r.line())
	}
	c.t.Log("\n" + b.String())
	file := os.Getenv("BERTH_CHAOS_REPORT")
	if file == "" || c.t.Failed() {
		return
	}
	text, err := os.ReadFile(file)
	c.must(err)
	prose, _, ok := strings.Cut(string(text), tableBelow)
	if !ok {
		c.t.Fatalf("%s has no line %q", file, tableBelow)
	}
	c.must(os.WriteFile(file, []byte(prose+tableBelow+"\n\n"+b.String()), 0o644))
}

// tableBelow is the line of the report behind which the table is written.
const tableBelow = "<!-- what follows is written by make chaos-full -->"

// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-project/berth/pkg/compute"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// contest is what clients ask of the conductors, and all that these have written.
type contest struct {
	rig    *rig
	topics wire.Topics
	to     *write.Producer
	reader *read.Reader // of the log

	mu   sync.Mutex
	news chan struct{} // closed and replaced with all that is read
	log  map[compute.InstanceID][]compute.Instance
	told map[compute.ClaimID]bool // granted or denied
	tick int64                    // of the clock that operations are ordered by
	ops  []porcupine.Operation
}

// newContest offers one flavor and reads what conductors write.
func newContest(r *rig) *contest {
	cell := r.prepared("test")
	c := &contest{
		rig: r, topics: cell.Topics(), news: make(chan struct{}),
		log: map[compute.InstanceID][]compute.Instance{}, told: map[compute.ClaimID]bool{},
	}
	admin, err := kafkaadmin.New(cell.Kafka)
	r.must(err)
	defer admin.Close()
	c.to, err = write.NewProducer(cell.Kafka)
	r.must(err)
	c.send(wire.EncodeFlavor(small("m1.small")).To(c.topics.Catalog(), 0))
	c.send(
		wire.EncodeQuota(
			compute.Quota{Project: compute.DefaultQuota, Limits: compute.Resources{compute.Instances: roomFor}},
		).To(
			c.topics.Catalog(),
			0,
		),
	)
	c.reader = cell.Committed(c.topics.Instances(), c.writes)
	r.start("log", c.reader)
	for _, h := range contenders {
		r.must(admin.EnsureHostTopic(r.t.Context(), h, 1))
		r.start(string(h), cell.Table(c.topics.Host(h), c.tells))
	}
	return c
}

func (c *contest) send(rec wire.Record) {
	if err := c.to.Send(c.rig.t.Context(), rec); err != nil {
		c.rig.t.Error(err)
	}
}

func (c *contest) writes(recs []wire.Record, _ bool) {
	c.hears(recs, func(rec wire.Record) error {
		inst, err := wire.DecodeInstance(rec)
		c.log[inst.ID] = append(c.log[inst.ID], inst)
		return err
	})
}

func (c *contest) tells(recs []wire.Record, _ bool) {
	c.hears(recs, func(rec wire.Record) error {
		cmd, err := wire.DecodeCommand(rec)
		if cmd.Op == compute.CommandGrant || cmd.Op == compute.CommandDeny {
			c.told[cmd.Claim] = true
		}
		return err
	})
}

func (c *contest) hears(recs []wire.Record, each func(wire.Record) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range recs {
		if err := each(rec); err != nil {
			c.rig.t.Error(err)
		}
	}
	close(c.news)
	c.news = make(chan struct{})
}

// do asks, again every now and then if that may be needed, until there is an
// answer, and writes down between which moments that was.
func (c *contest) do(client int, a asked, question wire.Record, answer func() string) string {
	c.mu.Lock()
	c.tick++
	op := porcupine.Operation{ClientId: client, Input: a, Call: c.tick, Output: "no answer"}
	c.mu.Unlock()
	c.send(question)
	lost := time.After(10 * time.Minute)
	for again := time.NewTicker(5 * time.Second); ; {
		c.mu.Lock()
		now, news := answer(), c.news
		if now != "" {
			c.tick++
			op.Output, op.Return = now, c.tick
			c.ops = append(c.ops, op)
			c.mu.Unlock()
			return now
		}
		c.mu.Unlock()
		select {
		case <-news:
		case <-again.C:
			if a.op == "claim" { // a denial may be lost with the conductor that should have said it
				c.send(question)
			}
		case <-lost:
			c.rig.t.Errorf("%s", describeOp(a, "no answer"))
			return ""
		}
	}
}

func (a asked) id() compute.InstanceID { return wire.KeyedInstance(a.project, fmt.Sprint(a.n)) }

func (c *contest) request(op compute.RequestOp, a asked) wire.Record {
	r := compute.Request{Op: op, Project: a.project, Instance: a.id(), At: time.Now()}
	if op == compute.OpBoot {
		r.Boot = &compute.Boot{Flavor: "m1.small", Deadline: 24 * time.Hour}
	}
	return wire.EncodeRequest(r).To(c.topics.Requests(), wire.AnyPartition)
}

func (c *contest) report(op compute.ReportOp, h compute.HostID, a asked) wire.Record {
	return wire.EncodeReport(compute.Report{
		Op: op, Host: h, Project: a.project, Instance: a.id(), Attempt: 1, Claim: a.claim,
		Class: compute.FailureRequest, At: time.Now(),
	}).To(c.topics.Reports(), wire.AnyPartition)
}

// steps is how often a client asks. All of them want the same few instances at
// the same time, and others later.
const steps = 24

// client asks for this and that, and ends some of what it was granted.
func (c *contest) client(ctx context.Context, client int, rnd *rand.Rand) {
	h := contenders[client%len(contenders)]
	for n := range steps {
		if rnd.IntN(2) == 0 {
			passes(ctx, time.Duration(rnd.IntN(3000))*time.Millisecond)
		}
		a := asked{project: contended[rnd.IntN(len(contended))], n: min(ids-1, n*ids/steps+rnd.IntN(2))}
		switch k := rnd.IntN(10); {
		case k < 4:
			c.boot(client, a)
		case k < 5:
			c.delete(client, a)
		case k < 6: // a report says the machine failed, with a wrong claim, on the host that may have it
			a.claim = "nobody's"
			c.send(c.report(compute.ReportFailed, h, a))
			c.send(c.report(compute.ReportGone, h, a))
		default:
			a.claim = compute.ClaimID(fmt.Sprintf("%d-%d", client, n))
			if c.claim(client, h, a) == "granted" && rnd.IntN(3) > 0 {
				passes(ctx, time.Duration(rnd.IntN(4000))*time.Millisecond)
				c.end(client, h, a)
			}
		}
	}
}

func (c *contest) boot(client int, a asked) {
	a.op = "boot"
	c.do(client, a, c.request(compute.OpBoot, a), func() string {
		if len(c.log[a.id()]) == 0 {
			return ""
		}
		switch i := c.log[a.id()][0]; {
		case i.State == compute.StateQueued:
			return "admitted"
		case i.State == compute.StateError && i.Reason.Code == compute.QuotaExceeded:
			return fmt.Sprintf("refused, %d of %d used", i.Reason.Used, i.Reason.Limit)
		case i.State == compute.StateDeleted:
			return "cancelled"
		}
		return "something else"
	})
}

func (c *contest) delete(client int, a asked) {
	a.op = "delete"
	c.do(client, a, c.request(compute.OpDelete, a), func() string {
		for _, i := range c.log[a.id()] {
			if i.Delete {
				return i.State.String()
			}
		}
		return ""
	})
}

// claim is granted if the log says so: the word may be lost, and a repeated claim
// denied since the instance was deleted meanwhile.
func (c *contest) claim(client int, h compute.HostID, a asked) string {
	a.op = "claim"
	return c.do(client, a, c.report(compute.ReportClaim, h, a), func() string {
		if !c.told[a.claim] {
			return ""
		}
		c.mu.Unlock()
		c.rig.must(c.reader.Sync(c.rig.t.Context()))
		c.mu.Lock()
		for _, i := range c.log[a.id()] {
			if i.State == compute.StateStarting && i.Claim == a.claim {
				return "granted"
			}
		}
		return "denied"
	})
}

func (c *contest) end(client int, h compute.HostID, a asked) {
	a.op = "end"
	c.do(client, a, c.report(compute.ReportFailed, h, a), func() string {
		for _, i := range c.log[a.id()] {
			if i.State.Ended() && i.Claim == a.claim {
				return i.State.String()
			}
		}
		return ""
	})
}

// look says how a project stands, once all reports before are decided.
func (c *contest) look(p compute.Project) {
	c.claim(99, contenders[0], asked{project: p, claim: compute.ClaimID("last-" + p)})
	c.rig.must(c.reader.Sync(c.rig.t.Context()))
	var s projectOf
	c.mu.Lock()
	for n := range s {
		log := c.log[asked{project: p, n: n}.id()]
		if len(log) == 0 {
			continue
		}
		last := log[len(log)-1]
		s[n] = standing{phase: last.State.String(), claim: last.Claim}
	}
	c.tick += 2
	c.ops = append(
		c.ops,
		porcupine.Operation{
			ClientId: 99,
			Input:    asked{op: "look", project: p},
			Call:     c.tick - 1,
			Return:   c.tick,
			Output:   s.String(),
		},
	)
	c.mu.Unlock()
}

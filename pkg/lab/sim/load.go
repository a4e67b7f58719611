// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// clients are the programs that send requests. Each repeats a request that may be repeated.
type clients struct {
	play     *play
	mu       sync.Mutex
	made     map[clientKey]*client.Client
	http     *http.Client
	producer *write.Producer
}

type clientKey struct {
	node    int
	project compute.Project
}

func newClients(w *play) *clients {
	c := &clients{play: w, made: map[clientKey]*client.Client{}}
	c.http = &http.Client{Transport: &http.Transport{DialContext: w.ours.Dial}, Timeout: askTime}
	var err error
	c.producer, err = write.NewProducer(w.kafka())
	w.must(err)
	return c
}

func (c *clients) close() {
	for _, x := range c.made {
		x.Close()
	}
	c.http.CloseIdleConnections()
	c.producer.Close()
}

const (
	askTime  = 20 * time.Second // for one answer
	keepTime = 90 * time.Second // how long what may be repeated is
)

// as talks to a node for a project.
func (c *clients) as(node_ int, p compute.Project) *client.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := clientKey{node_, p}
	if c.made[k] == nil {
		x, err := client.New(
			client.Config{Address: node(node_), Project: p, Timeout: askTime, Patience: -1, Dial: c.play.ours.Dial},
		)
		c.play.must(err)
		c.made[k] = x
	}
	return c.made[k]
}

// do asks for what a schedule says and writes down how it went.
func (c *clients) do(l schedule.Load) {
	if l.Boot != nil && l.Boot.Group() == schedule.Late {
		select {
		case <-c.play.late:
		case <-c.play.ours.Dead:
			return
		}
	}
	a := judge.Ask{Load: l, Began: time.Now()}
	repeat := true
	var ask func(context.Context) error
	switch l.Op {
	case schedule.LoadSet:
		c.set(l)
		return
	case schedule.LoadReserve, schedule.LoadTake:
		a.ID = wire.KeyedInstance(l.Project, l.Name)
	case schedule.LoadBoot:
		repeat = l.Own != ""
		if repeat {
			a.ID = wire.KeyedInstance(l.Project, l.Name)
		}
	case schedule.LoadDelete, schedule.LoadPower, schedule.LoadLabel:
		if l.Own == "id" {
			a.ID = wire.KeyedInstance(l.Project, l.Name)
		} else if a.ID = c.target(l); a.ID == "" {
			return
		}
		a.Began = time.Now()
	}
	i := c.play.rec.AddAsk(a)
	switch l.Op {
	case schedule.LoadBoot:
		ask = func(ctx context.Context) error { return c.boot(ctx, i, l, a.ID) }
	case schedule.LoadReserve:
		ask = func(ctx context.Context) error { return c.reserve(ctx, l, a.Began) }
	case schedule.LoadTake:
		ask = func(ctx context.Context) error { return c.boot(ctx, i, l, a.ID) }
	case schedule.LoadDelete:
		ask = func(ctx context.Context) error { return c.delete(ctx, l, a.ID) }
	case schedule.LoadLabel:
		ask = func(ctx context.Context) error { return c.label(ctx, l, a.ID, i) }
	case schedule.LoadPower:
		ask = func(ctx context.Context) error { return c.power(ctx, l, a.ID, i) }
	default:
		ask = func(ctx context.Context) error { return c.operate(ctx, l) }
	}
	c.until(i, repeat, ask)
	if a := c.play.rec.AskAt(i); l.Op == schedule.LoadBoot && a.OK {
		c.accepted(l, a.ID)
	}
}

// set asks for boots of which all start or none. Each of them is written down as if it were asked for alone.
func (c *clients) set(l schedule.Load) {
	var asked []int
	var set []compute.SetBoot
	for _, part := range l.Parts() {
		a := judge.Ask{Load: part, Began: time.Now(), ID: wire.KeyedInstance(l.Project, part.Name)}
		asked = append(asked, c.play.rec.AddAsk(a))
		b := *part.Boot
		b.Name = part.Name
		set = append(set, compute.SetBoot{Boot: b})
	}
	c.until(asked[0], true, func(ctx context.Context) error {
		_, err := c.as(l.Node, l.Project).BootSetUnder(ctx, l.Name, set)
		return err
	})
	first := c.play.rec.AskAt(asked[0])
	for i, n := range asked {
		c.play.rec.ChangeAsk(n, func(a *judge.Ask) {
			a.OK, a.Answered, a.Err, a.Why, a.Tries = first.OK, first.Answered, first.Err, first.Why, first.Tries
		})
		if first.OK {
			c.accepted(l.Parts()[i], c.play.rec.AskAt(n).ID)
		}
	}
}

// until asks until there is an answer that says yes or no.
func (c *clients) until(i int, repeat bool, ask func(context.Context) error) {
	for end := time.Now().Add(keepTime); ; {
		c.play.rec.ChangeAsk(i, func(a *judge.Ask) { a.Tries++ })
		ctx, cancel := context.WithTimeout(c.play.ours.Life, askTime)
		err := ask(ctx)
		cancel()
		if err == nil {
			c.play.rec.ChangeAsk(i, func(a *judge.Ask) { a.OK, a.Answered, a.Err = true, time.Now(), "" })
			return
		}
		c.play.rec.ChangeAsk(i, func(a *judge.Ask) { a.Err, a.Why = err.Error(), judge.Cause(err) })
		if kind := compute.KindOf(err); kind != compute.KindUnavailable && kind != compute.KindTimeout &&
			kind != compute.KindInternal {
			c.play.rec.ChangeAsk(i, func(a *judge.Ask) { a.Answered = time.Now() })
			return
		}
		if !repeat || time.Now().After(end) || !c.play.sleep(time.Second) {
			return
		}
	}
}

// target is the instance that a delete or a command is about: at once, or as
// soon as it is in the state that the schedule wants.
func (c *clients) target(l schedule.Load) compute.InstanceID {
	for end := time.Now().Add(schedule.StateTime); time.Now().Before(end); {
		inst, ok := c.play.rec.InstanceNamed(l.Name)
		id := c.play.rec.IDOf(l.Name)
		switch {
		case l.When == "" && id != "":
			return id
		case ok && (l.When == "" || inst.State.String() == l.When):
			return inst.ID
		case ok && inst.State.Ended():
			return ""
		}
		if !c.play.sleep(50 * time.Millisecond) {
			return ""
		}
	}
	return ""
}

func (c *clients) boot(ctx context.Context, i int, l schedule.Load, id compute.InstanceID) error {
	b := *l.Boot
	b.Name = l.Name
	var out client.Instance
	var err error
	if l.Own == "key" {
		out, err = c.keyed(ctx, l, b)
	} else {
		out, err = c.as(l.Node, l.Project).Boot(ctx, id, b)
	}
	if err == nil {
		c.play.rec.ChangeAsk(i, func(a *judge.Ask) { a.ID = out.ID })
		if id != "" && out.ID != id {
			c.play.rec.AddViolation("I1", id, "%s was asked for as %s and is %s", l.Name, id, out.ID)
		}
	}
	return err
}

// keyed boots with an Idempotency-Key.
func (c *clients) keyed(ctx context.Context, l schedule.Load, b compute.Boot) (out client.Instance, err error) {
	body, err := json.Marshal(rest.FromBoot(l.Project, "", b))
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		"http://"+node(l.Node)+"/v1/instances",
		bytes.NewReader(body),
	)
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", l.Name)
	resp, err := c.http.Do(req)
	if err != nil {
		return out, &compute.Error{Kind: compute.KindUnavailable, Cause: err}
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	if resp.StatusCode >= 300 {
		var p rest.Problem
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return out, &compute.Error{Kind: compute.KindUnavailable, Cause: err}
		}
		return out, p.Compute()
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, &compute.Error{Kind: compute.KindUnavailable, Cause: err}
	}
	return out, nil
}

// reserve writes to Kafka itself, so that the ids of placeholders are known.
func (c *clients) reserve(ctx context.Context, l schedule.Load, began time.Time) error {
	v := &compute.Reserve{Name: compute.ReservationName(l.Name), From: began.Add(l.From.Duration()), Boot: *l.Boot}
	v.Until = v.From.Add(l.For.Duration())
	for i := range l.Count {
		v.Instances = append(v.Instances, wire.KeyedInstance(l.Project, l.PartName(i)))
	}
	return c.publish(ctx, compute.Request{
		Op: compute.OpReserve, Project: l.Project, Instance: v.Instances[0], Reserve: v, At: time.Now(),
	}, wire.AnyPartition)
}

// delete asks the API, or writes to Kafka itself, as anybody may: the API refuses
// to delete what it does not know.
func (c *clients) delete(ctx context.Context, l schedule.Load, id compute.InstanceID) error {
	if l.Own == "id" {
		return c.publish(
			ctx,
			compute.Request{Op: compute.OpDelete, Project: l.Project, Instance: id, At: time.Now()},
			wire.AnyPartition,
		)
	}
	_, err := c.as(l.Node, l.Project).Delete(ctx, id)
	return err
}

// power publishes a command, as any client of Kafka may: the API has no such
// route yet.
func (c *clients) power(ctx context.Context, l schedule.Load, id compute.InstanceID, i int) error {
	ops := map[string]compute.RequestOp{"stop": compute.OpStop, "start": compute.OpStart, "reboot": compute.OpReboot}
	return c.publish(ctx, compute.Request{
		Op: ops[l.Power], Project: l.Project, Instance: id, Command: compute.CommandID(fmt.Sprintf("c-%d", i)),
		At: time.Now(),
	}, wire.AnyPartition)
}

func (c *clients) label(ctx context.Context, l schedule.Load, id compute.InstanceID, i int) error {
	change := compute.Change{Set: map[string]string{l.Label: judge.Label(i)}}
	_, err := c.as(l.Node, l.Project).Change(ctx, id, change)
	return err
}

func (c *clients) publish(ctx context.Context, r compute.Request, partition int32) error {
	rec := wire.EncodeRequest(r).To(wire.Topics{Prefix: prefix}.Requests(), partition)
	return c.producer.Send(ctx, c.play.keys.sign(rec, r))
}

// operate is what operators ask for. What was asked and perhaps done before is
// no error the second time.
func (c *clients) operate(ctx context.Context, l schedule.Load) error {
	as := c.as(l.Node, "default")
	var err error
	switch l.Op {
	case schedule.LoadQuota:
		_, err = as.SetQuota(ctx, compute.Quota{Project: l.Project, Limits: l.Limits, Classes: l.Classes})
	case schedule.LoadGroup:
		_, err = c.as(l.Node, l.Project).SetGroup(ctx, *l.Group)
	case schedule.LoadAddFlavor:
		_, err = as.AddFlavor(ctx, *l.Flavor, false)
	case schedule.LoadDropFlavor:
		_, err = as.RemoveFlavor(ctx, l.Flavor.Name, false)
	case schedule.LoadResize:
		if err = c.resize(ctx, as, l); err == nil {
			c.play.rec.CountFelt(l.ResizeKind())
		}
	case schedule.LoadAddAxis:
		_, err = as.AddCapability(ctx, *l.Axis, false)
	case schedule.LoadDropAxis:
		_, err = as.RemoveCapability(ctx, l.Axis.Axis, false)
	case schedule.LoadHost:
		switch l.Wish {
		case "drain":
			_, err = as.Drain(ctx, l.Host, "simulated", time.Time{})
		case "disable":
			_, err = as.Disable(ctx, l.Host, "simulated")
		default:
			_, err = as.Enable(ctx, l.Host, "simulated")
		}
	default:
		err = compute.Invalid("load", l.Op, "give one that is known")
	}
	return err
}

// resizeTime is how long an operator waits for nothing to wait in the queues of a flavor.
const resizeTime = 40 * time.Second

// resize has a flavor be another one of the same name, as an operator does it: it is removed first, which is refused
// while anything waits in its queues, and is asked for again for a while.
func (c *clients) resize(ctx context.Context, as *client.Client, l schedule.Load) error {
	_, err := as.AddFlavor(ctx, *l.Flavor, false)
	if compute.KindOf(err) != compute.KindConflict {
		return err
	}
	if _, err = as.RemoveFlavor(ctx, l.Flavor.Name, false); err == nil || compute.KindOf(err) == compute.KindNotFound {
		_, err = as.AddFlavor(ctx, *l.Flavor, false)
	}
	if compute.KindOf(err) == compute.KindConflict && time.Since(c.play.rec.Start) < (l.At.Duration()+resizeTime) {
		return compute.Unavailable("resize", err)
	}
	return err
}

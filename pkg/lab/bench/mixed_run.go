// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench/mixed"
	"github.com/berth-project/berth/queues/save"
)

// Mix is a bench of a mixed load.
type Mix struct {
	Load    mixed.Load
	Savings save.Rules
}

// with are the options of such a run: what the load says goes before what they say.
func (m Mix) with(o Options) Options {
	o.Hosts, o.HostSize, o.Queues, o.Projects = m.Load.Hosts, m.Load.HostSize, len(m.Load.Sizes), m.Load.Projects
	o.NoGPUs, o.Via, o.Warmup, o.Idle = true, ViaHTTP, 0, 0
	return o.WithDefaults()
}

// Check refuses what cannot be measured.
func (m Mix) Check() error {
	for _, s := range []struct {
		flag            string
		is, least, most time.Duration
	}{
		{"save-after", m.Savings.After, 0, 24 * time.Hour}, {"save-for", m.Savings.For, time.Second, compute.MaxSave},
	} {
		if s.is < s.least || s.is > s.most {
			return compute.Invalid(s.flag, s.is.String(), fmt.Sprintf("give %s to %s", s.least, s.most))
		}
	}
	if m.Savings.Share < 1 {
		return compute.Invalid("save-share", fmt.Sprint(m.Savings.Share), "give 1 or more: one host in so many saves at most")
	}
	return m.Load.Check()
}

// RunMix measures a mixed load on a cell of its own. Of o it takes where that runs and what it has but hosts.
func RunMix(ctx context.Context, o Options, m Mix, p lab.Product) (MixResult, error) {
	if err := m.Check(); err != nil {
		return MixResult{}, err
	}
	o = m.with(o)
	if err := o.Check(); err != nil {
		return MixResult{}, err
	}
	o = o.resolved()
	return withRun(ctx, o, p, newMixedCloud(m.Load), func(r *run) (MixResult, error) {
		r.own.site.Savings = &m.Savings
		x := &mixRun{run: r, m: m, boots: newMortals(m.Load, m.Load.Arrivals())}
		return x.all(ctx)
	})
}

// mixRun is one such run.
type mixRun struct {
	*run
	m           Mix
	boots       []mortal
	from, until time.Time // what is measured
	saving      []int     // hosts that saved, each second
	result      MixResult
}

func (x *mixRun) all(ctx context.Context) (MixResult, error) {
	l := x.m.Load
	if x.o.Title != "" {
		x.say("%s:", x.o.Title)
	}
	x.say(
		"Berth on %s (%s): %d hosts with %d processors; %.4g boots/s of %v processors that live for %s; "+
			"measured for %s after %s", x.broker.version, x.broker.kind, l.Hosts, l.HostSize, l.Rate(), l.Sizes, l.Life, l.For,
		l.From(),
	)
	happened, err := x.live(ctx, x.use)
	if err != nil {
		return MixResult{}, err
	}
	x.sumUp(happened)
	return x.result, nil
}

// use sends the load and deletes what has lived, and then lets all come to its end.
func (x *mixRun) use(ctx context.Context, api string) error {
	if err := x.awaitAgents(ctx); err != nil {
		return err
	}
	clients, err := newOverHTTP(api, projects(x.o.Projects), false)
	if err != nil {
		return err
	}
	defer clients.close()
	l := newLoad(x.ledger, &grouping{overHTTP: clients, made: map[compute.GroupKey]func() error{}}, x.cloud)
	dies := reaper{load: l, lives: map[*boot]time.Duration{}, all: make(chan struct{}), stop: make(chan struct{})}
	for _, b := range x.boots {
		dies.lives[b.boot] = b.Life
		x.sent = append(x.sent, b.boot)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return dies.run(ctx) })
	all.Go(func() error {
		defer close(dies.stop)
		if err := x.measured(ctx, l); err != nil {
			return err
		}
		return x.drained(ctx, dies)
	})
	return all.Wait()
}

// measured sends all boots, and answers when what is measured is over.
func (x *mixRun) measured(ctx context.Context, l *load) error {
	start := time.Now()
	x.from, x.until = start.Add(x.m.Load.From()), start.Add(x.m.Load.Until())
	at := make([]time.Duration, len(x.boots))
	for i, b := range x.boots {
		at[i] = b.At
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return l.run(ctx, timetable{start, at}, x.sent) })
	all.Go(func() error { return x.watched(ctx) })
	return all.Wait()
}

// watched looks at what is used, and at which hosts save, while the load is measured.
func (x *mixRun) watched(ctx context.Context) error {
	if err := x.eachSecond(ctx, x.from, func() error { return nil }); err != nil {
		return err
	}
	x.say("measuring")
	before, err := x.opening(ctx)
	if err != nil {
		return err
	}
	if err := x.eachSecond(ctx, x.until, func() error { return x.countSavers(ctx) }); err != nil {
		return err
	}
	after, err := x.closing(ctx)
	if err == nil {
		x.ledger.read(func() { x.result.Rows = mixed.SumUp(x.waits()) })
		x.used(before, after)
	}
	return err
}

func (x *mixRun) countSavers(ctx context.Context) error {
	reports, err := x.reports(ctx)
	n := 0
	for _, of := range reports {
		n += sum(of...).Saving
	}
	x.saving = append(x.saving, n)
	return err
}

// sayMixEvery is how often is said how far a mixed load is: it takes minutes.
const sayMixEvery = 30 * time.Second

// eachSecond does something each second until a moment, and says now and then how far the load is.
func (x *mixRun) eachSecond(ctx context.Context, until time.Time, do func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	for said := time.Now(); ; {
		select {
		case now := <-tick.C:
			if err := do(); err != nil {
				return err
			}
			if now.Sub(said) >= sayMixEvery {
				said = now
				accepted, settled := x.ledger.progress(x.sent)
				x.say("  %d of %d accepted, %d of them wait", accepted, len(x.sent), accepted-settled)
			}
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drained ends all lives, so that what waits has room: what then does not come to its end is lost.
func (x *mixRun) drained(ctx context.Context, dies reaper) error {
	x.say("ending: all machines are deleted, and what waits has its turn")
	close(dies.all)
	x.ledger.touch()
	_, err := x.ledger.await(ctx, x.sent, x.o.Stall, func(b *boot) bool { return b.over() })
	return err
}

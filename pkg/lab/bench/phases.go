// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	kafkawrite "github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// use makes the product work.
func (r *run) use(ctx context.Context, api string) error {
	if err := r.awaitAgents(ctx); err != nil {
		return err
	}
	send, closing, err := r.sender(api)
	if err != nil {
		return err
	}
	defer closing()
	l := newLoad(r.ledger, send, r.cloud)
	work := func(ctx context.Context) error {
		if err := r.warm(ctx, l); err != nil {
			return err
		}
		if err := r.idle(ctx); err != nil {
			return err
		}
		return r.profiled(ctx, l)
	}
	if r.o.Churn {
		err = r.churning(ctx, l, work)
	} else {
		err = work(ctx)
	}
	if err != nil {
		return err
	}
	return r.gone(ctx, r.sent)
}

// churning keeps hosts nearly full while something is done.
func (r *run) churning(ctx context.Context, l *load, work func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	stop := make(chan struct{})
	all.Go(func() error { return l.churn(ctx, stop, r.o.live()) })
	all.Go(func() error {
		defer close(stop)
		return work(ctx)
	})
	return all.Wait()
}

// sender is the way in.
func (r *run) sender(api string) (sender, func(), error) {
	if r.o.Via == ViaKafka {
		p, err := kafkawrite.NewProducer(r.kafka("sender"))
		if err != nil {
			return nil, nil, err
		}
		return overKafka{p, wire.Topics{Prefix: r.o.Prefix}}, p.Close, nil
	}
	clients, err := newOverHTTP(api, projects(r.o.Projects), r.o.OwnIDs)
	return clients, clients.close, err
}

func projects(n int) []compute.Project {
	out := make([]compute.Project, n)
	for i := range out {
		out[i] = project(i)
	}
	return out
}

// warm sends boots that are not measured. Their machines are deleted, except
// where hosts are to be kept full.
func (r *run) warm(ctx context.Context, l *load) error {
	if len(r.warmup) == 0 {
		return nil
	}
	r.say("warming up: %d boots %s", len(r.warmup), r.o.load())
	most := len(r.warmup)
	if r.o.Fill > 0 {
		most = r.o.Count // has room for no more
	}
	for boots := range slices.Chunk(r.warmup, most) {
		if err := r.send(ctx, l, r.o, boots); err != nil {
			return err
		}
		if b := r.warmup[0]; b.refused != nil {
			return fmt.Errorf("the first boot was refused: %w", b.refused)
		}
		if r.o.Churn {
			return nil
		}
		if err := r.clear(ctx, l, boots); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the machines of boots that are done with.
func (r *run) clear(ctx context.Context, l *load, boots []*boot) error {
	if err := l.remove(ctx, r.ledger.oldest(0)); err != nil {
		return fmt.Errorf("delete what was booted before: %w", err)
	}
	return r.gone(ctx, boots)
}

// send sends boots and waits for what becomes of them. What does not settle is
// lost: the judge says so.
func (r *run) send(ctx context.Context, l *load, o Options, boots []*boot) error {
	r.sent = append(r.sent, boots...)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching, boots) })
	defer watch.Wait()
	defer stop()
	if err := l.run(ctx, o.pacer(r.ledger, boots), boots); err != nil {
		return err
	}
	_, err := r.ledger.await(ctx, boots, o.Stall, (*boot).settled)
	return err
}

// sayEvery is how often is said how far boots are.
const sayEvery = 5 * time.Second

func (r *run) watch(ctx context.Context, boots []*boot) {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			accepted, settled := r.ledger.progress(boots)
			r.say("  %d of %d accepted, %d done", accepted, len(boots), settled)
		case <-ctx.Done():
			return
		}
	}
}

// gone waits for the machines that were asked to be deleted.
func (r *run) gone(ctx context.Context, boots []*boot) error {
	r.ledger.touch()
	_, err := r.ledger.await(ctx, boots, r.o.Stall, func(b *boot) bool { return !b.deleting || b.over() })
	return err
}

// profiled is all that is measured, with profiles if they are wanted.
func (r *run) profiled(ctx context.Context, l *load) (err error) {
	stop, err := profile(r.o.Profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if r.o.Ramp {
		return r.ramp(ctx, l)
	}
	return r.measured(ctx, l, r.o, r.boots)
}

// measured is what everything else is for: what some boots took goes into the
// result.
func (r *run) measured(ctx context.Context, l *load, o Options, boots []*boot) error {
	r.say("measuring: %d boots %s via %s", len(boots), o.load(), o.Via)
	before, err := r.opening(ctx)
	if err != nil {
		return err
	}
	if err := r.send(ctx, l, o, boots); err != nil {
		return err
	}
	after, err := r.closing(ctx)
	if err != nil {
		return err
	}
	was, is, n := before.all, after.all, float64(len(boots))
	r.result.CPU = after.usage.since(before.usage, len(boots))
	r.result.RSS = Share[int64]{Berth: is.RSS, Broker: allOf(r.broker.pids, resident)}
	r.result.Connections = is.Connections
	r.result.Fsyncs = (is.Journals - was.Journals) * journal.Syncs
	r.result.Warnings = is.Warnings
	r.result.Denied, r.result.Released = is.Denied-was.Denied, is.Released-was.Released
	r.result.Requests = between(was.Traffic, is.Traffic, len(boots))
	r.result.Bytes = bytesBetween(was.Traffic, is.Traffic, len(boots))
	r.result.Served = after.served.since(before.served, n)
	r.result.Fill = r.cloud.fill(is.Taken)
	r.ledger.read(func() { r.result.count(boots) })
	return nil
}

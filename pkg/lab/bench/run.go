// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// LeftError is of a run that could not delete what it had made.
type LeftError struct{ Cause error }

// Error is why it could not.
func (e *LeftError) Error() string { return e.Cause.Error() }

// Unwrap is the cause.
func (e *LeftError) Unwrap() error { return e.Cause }

// Run measures a product. What the run made is gone when it answers, also when
// ctx ends before, or there is a LeftError among what it answers; a result that
// tells of something lost or doubled is no error here.
func Run(ctx context.Context, o Options, p lab.Product) (Result, error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	o = o.resolved()
	c, warmup, measured, err := plan(o)
	if err != nil {
		return Result{}, err
	}
	return withRun(ctx, o, p, c, func(r *run) (Result, error) {
		r.warmup, r.boots = newBoots("warm-up", warmup, o.Projects), newBoots("boot", measured, o.Projects)
		return r.all(ctx)
	})
}

// withRun starts the brokers of a run, and removes afterwards what it made.
func withRun[T any](ctx context.Context, o Options, p lab.Product, c *cloud, do func(*run) (T, error)) (out T, err error) {
	files, err := raiseFiles(o)
	if err != nil {
		return out, err
	}
	data, err := os.MkdirTemp(o.Data, "berth-bench-")
	if err != nil {
		return out, err
	}
	if o.Prefix == "" {
		o.Prefix = "bench-" + strings.ToLower(rand.Text()[:8]) + "."
	}
	b, err := startBroker(ctx, o, data)
	if err != nil {
		return out, errors.Join(err, os.RemoveAll(data))
	}
	defer func() {
		if failed := errors.Join(b.endSoon(ctx, o.Prefix), os.RemoveAll(data)); failed != nil {
			err = errors.Join(err, &LeftError{failed})
		}
	}()
	r := newRun(o, p, b, c, data)
	r.result.Settings.Files = files
	return do(r)
}

func newRun(o Options, p lab.Product, b *broker, c *cloud, data string) *run {
	r := &run{
		o: o, cloud: c, broker: b, product: p, ledger: newLedger(),
	}
	r.o.Say = &locked{to: o.Say}
	r.result = Result{
		Hosts: o.Hosts, Queues: o.Queues, Via: o.Via, Machine: thisMachine(), Versions: theseVersions(b.version),
		Settings: o.settings(b.kind, c), Wrong: []string{}, Warnings: map[string]int{},
	}
	r.result.Settings.JournalsOn = fileSystem(data)
	r.own = newLocal(p, lab.Site{
		Brokers: b.addrs, Prefix: o.Prefix, Partitions: o.Partitions, Replication: int16(o.Replication), Data: data,
	}, o.Log)
	r.o.Log = r.own.site.Log
	return r
}

// endTime is how long cleaning up may take.
const endTime = time.Minute

// endSoon cleans up whether ctx has ended or not.
func (b *broker) endSoon(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	return b.end(ctx, prefix)
}

// run is one run.
type run struct {
	o       Options
	cloud   *cloud
	broker  *broker
	product lab.Product
	own     *local   // what runs in this process
	remotes []remote // what runs in others
	ledger  *ledger
	warmup  []*boot
	boots   []*boot // those whose numbers are the result
	sent    []*boot // or about to be
	result  Result
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Say, format+"\n", args...) }

// all is the whole run: the product, then the floor.
func (r *run) all(ctx context.Context) (Result, error) {
	if r.o.Title != "" {
		r.say("%s:", r.o.Title)
	}
	r.say(
		"Berth on %s (%s): %d hosts with room for %d machines each, %d queues",
		r.broker.version,
		r.broker.kind,
		r.o.Hosts,
		r.cloud.size,
		r.o.Queues,
	)
	happened, err := r.live(ctx, r.use)
	if err != nil {
		return Result{}, err
	}
	r.result.Wasted = wasted(r.boots, happened.Events)
	v := judge(r.sent, happened.Events, happened.Overfull)
	r.result.Lost, r.result.Doubled = v.lost, v.doubled
	r.result.Wrong = append(r.result.Wrong, v.wrong...)
	if r.o.Floor {
		f, err := r.floor(ctx)
		if err != nil {
			return r.result, fmt.Errorf("floor: %w", err)
		}
		r.result.over(f)
	}
	return r.result, nil
}

// live starts a cell and its hosts, lets use work with it, ends all of it and answers what has happened to the hosts.
func (r *run) live(ctx context.Context, use func(ctx context.Context, api string) error) (outcome, error) {
	if err := r.product.Prepare(ctx, r.own.site); err != nil {
		return outcome{}, err
	}
	core, api := core(r.o.Conductors, r.place)
	agents, err := r.agents()
	if err != nil {
		return outcome{}, err
	}
	g := service.NewGroup()
	g.Add("core", core)
	g.Add("observer", observer(r.kafka("observer"), r.ledger))
	err = service.During(ctx, g, func(ctx context.Context) error {
		if err := r.offer(ctx, api()); err != nil {
			return err
		}
		return service.During(ctx, agents, func(ctx context.Context) error { return use(ctx, api()) })
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return outcome{}, err
	}
	return r.outcome()
}

// kafka is how the bench itself reaches the brokers.
func (r *run) kafka(name string) kafka.Config {
	return kafka.Config{
		Brokers: r.broker.addrs, ClientID: "berth-bench-" + name, Topics: wire.Topics{Prefix: r.o.Prefix},
		Log:     r.o.Log.Named(name),
		Metrics: kafka.NewMetrics(r.own.counters.of(lab.RoleLoad)),
	}
}

// locked is a writer that several write to: this process, and what copies the logs
// of others.
type locked struct {
	mu sync.Mutex
	to io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

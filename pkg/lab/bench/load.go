// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	kafkawrite "github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// sender puts requests into the system. Both calls return when what was asked
// for cannot be lost any more.
type sender interface {
	boot(ctx context.Context, b *boot, what compute.Boot) error
	delete(ctx context.Context, b *boot) error
}

// mostInFlight bounds how many requests wait for their answer; what is due
// beyond that waits here, and its time counts.
const mostInFlight = 512

// load sends boots when they are due, and notes the answers.
type load struct {
	ledger *ledger
	sender sender
	cloud  *cloud
	flight chan struct{} // holds one for each request in flight
}

func newLoad(l *ledger, s sender, c *cloud) *load {
	return &load{ledger: l, sender: s, cloud: c, flight: make(chan struct{}, mostInFlight)}
}

// newBoots makes a boot for each choice, named after what they are for.
func newBoots(what string, chosen []int, projects int) []*boot {
	boots := make([]*boot, len(chosen))
	for i, q := range chosen {
		boots[i] = &boot{name: fmt.Sprintf("%s-%d", what, i), project: project(i % projects), queue: q}
	}
	return boots
}

// project is the i-th that boots are spread over.
func project(i int) compute.Project { return compute.Project(fmt.Sprintf("bench-%02d", i)) }

// run sends boots as the pacer says and answers when all are answered.
func (l *load) run(ctx context.Context, p pacer, boots []*boot) error {
	l.ledger.enter(boots)
	return p.run(ctx, len(boots), func(i int, due time.Time) {
		b := boots[i]
		b.due = due
		l.flight <- struct{}{}
		defer func() { <-l.flight }()
		q := l.cloud.queues[b.queue]
		err := l.sender.boot(ctx, b, compute.Boot{
			Name: b.name, Flavor: q.flavor, With: q.with, Rules: b.rules, Deadline: b.waits,
		})
		l.ledger.answered(b, time.Now(), err)
	})
}

// remove deletes machines, and answers when all that was asked is acknowledged.
func (l *load) remove(ctx context.Context, boots []*boot) error {
	var all errgroup.Group
	all.SetLimit(64)
	for _, b := range boots {
		all.Go(func() error { return l.sender.delete(ctx, b) })
	}
	return all.Wait()
}

// makeRoom is how long boots wait for room until one machine in ten more is
// deleted: all that would fit them may be full, and nothing else to be deleted.
const makeRoom = time.Second

// churn deletes the oldest machines whenever more than so many live, until it
// shall stop; what it has begun to delete it deletes.
func (l *load) churn(ctx context.Context, stop <-chan struct{}, live int) error {
	timer := time.NewTimer(makeRoom)
	defer timer.Stop()
	keep := live
	for {
		news := l.ledger.wait()
		if err := l.remove(ctx, l.ledger.oldest(keep)); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		keep = live
		timer.Reset(makeRoom)
		select {
		case <-news:
		case <-timer.C:
			if l.ledger.pending() {
				n := l.ledger.living()
				keep = min(live, n-max(n/10, 1))
			}
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// overHTTP sends through an API node.
type overHTTP struct {
	clients map[compute.Project]*client.Client
	ownIDs  bool // choose ids here, so that the API must find out whether they are known
}

// newOverHTTP makes a client for each project.
func newOverHTTP(api string, projects []compute.Project, ownIDs bool) (overHTTP, error) {
	clients := map[compute.Project]*client.Client{}
	for _, p := range projects {
		c, err := client.New(client.Config{Address: api, Project: p, Timeout: 30 * time.Second})
		if err != nil {
			return overHTTP{}, err
		}
		clients[p] = c
	}
	return overHTTP{clients, ownIDs}, nil
}

func (h overHTTP) boot(ctx context.Context, b *boot, what compute.Boot) error {
	var id compute.InstanceID
	if h.ownIDs {
		id = compute.InstanceID(uuid.NewString())
	}
	_, err := h.clients[b.project].Boot(ctx, id, what)
	return err
}

func (h overHTTP) delete(ctx context.Context, b *boot) error {
	_, err := h.clients[b.project].Delete(ctx, b.id)
	return err
}

func (h overHTTP) close() {
	for _, c := range h.clients {
		c.Close()
	}
}

// overKafka writes records of the requests topic, as an API node would.
type overKafka struct {
	producer *kafkawrite.Producer
	topics   wire.Topics
}

func (k overKafka) boot(ctx context.Context, b *boot, what compute.Boot) error {
	what = what.WithDefaults()
	id := compute.InstanceID(uuid.NewString())
	return k.send(
		ctx,
		compute.Request{Project: b.project, Instance: id, Op: compute.OpBoot, Boot: &what, At: time.Now()},
	)
}

func (k overKafka) delete(ctx context.Context, b *boot) error {
	return k.send(ctx, compute.Request{Project: b.project, Instance: b.id, Op: compute.OpDelete, At: time.Now()})
}

func (k overKafka) send(ctx context.Context, r compute.Request) error {
	return k.producer.Send(ctx, wire.EncodeRequest(r).To(k.topics.Requests(), wire.AnyPartition))
}

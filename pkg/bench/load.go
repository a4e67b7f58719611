package bench

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
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

// newBoots makes a boot for each draw.
func newBoots(drawn []int, projects int) []*boot {
	boots := make([]*boot, len(drawn))
	for i, q := range drawn {
		boots[i] = &boot{
			id:      compute.InstanceID(uuid.NewString()),
			project: project(i % projects),
			queue:   q,
		}
	}
	return boots
}

// project is the i-th that boots are spread over.
func project(i int) compute.Project { return compute.Project(fmt.Sprintf("bench-%02d", i)) }

// run sends boots by the schedule and answers when all are answered.
func (l *load) run(ctx context.Context, s schedule, boots []*boot) error {
	l.ledger.enter(boots)
	return s.run(ctx, len(boots), func(i int, due time.Time) {
		b := boots[i]
		b.due = due
		l.flight <- struct{}{}
		defer func() { <-l.flight }()
		q := l.cloud.queues[b.queue]
		err := l.sender.boot(ctx, b, compute.Boot{Name: fmt.Sprintf("bench-%d", i), Flavor: q.flavor, With: q.with})
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

// churn deletes the oldest machines whenever more than so many live, until ctx
// ends.
func (l *load) churn(ctx context.Context, live int) error {
	for {
		news := l.ledger.wait()
		if err := l.remove(ctx, l.ledger.oldest(live)); err != nil && ctx.Err() == nil {
			return fmt.Errorf("delete: %w", err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}

// overHTTP sends through an API node.
type overHTTP map[compute.Project]*client.Client

// newOverHTTP makes a client for each project.
func newOverHTTP(api string, projects []compute.Project) (overHTTP, error) {
	clients := overHTTP{}
	for _, p := range projects {
		c, err := client.New(client.Config{Address: api, Project: p, Timeout: 30 * time.Second, Dial: (&net.Dialer{}).DialContext})
		if err != nil {
			return nil, err
		}
		clients[p] = c
	}
	return clients, nil
}

func (c overHTTP) boot(ctx context.Context, b *boot, what compute.Boot) error {
	_, err := c[b.project].Boot(ctx, b.id, what)
	return err
}

func (c overHTTP) delete(ctx context.Context, b *boot) error {
	_, err := c[b.project].Delete(ctx, b.id)
	return err
}

func (c overHTTP) close() {
	for _, one := range c {
		one.Close()
	}
}

// overKafka writes records of the requests topic, as an API node would.
type overKafka struct {
	producer *kafka.Producer
	topics   wire.Topics
}

func (k overKafka) boot(ctx context.Context, b *boot, what compute.Boot) error {
	what = what.WithDefaults()
	return k.send(ctx, compute.Request{Project: b.project, Instance: b.id, Op: compute.OpBoot, Boot: &what, At: time.Now()})
}

func (k overKafka) delete(ctx context.Context, b *boot) error {
	return k.send(ctx, compute.Request{Project: b.project, Instance: b.id, Op: compute.OpDelete, At: time.Now()})
}

func (k overKafka) send(ctx context.Context, r compute.Request) error {
	return k.producer.Send(ctx, wire.EncodeRequest(r).To(k.topics.Requests(), wire.AnyPartition))
}

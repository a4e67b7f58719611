// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// Options say where requests go.
type Options struct {
	Topics wire.Topics // of the cell: wire.Topics{Prefix: wire.DefaultPrefix} unless it was configured otherwise
	// Timeout is the longest that one Publish takes, if its context does not end
	// before. 0: DefaultTimeout.
	Timeout time.Duration
	// Key signs every request, where conductors demand it (publish.trust: keys); nil: none is signed.
	Key *publishkey.Key
}

// DefaultTimeout outlasts the loss of a broker with Kafka's own settings.
const DefaultTimeout = 30 * time.Second

// Sender is what an adapter makes of a Kafka client. It is safe for concurrent
// use. Its errors are those of Refused, Unreached and Busy.
type Sender interface {
	// Partitions is how many partitions a topic has. It is asked before every
	// record, so it answers from what the client remembers. It never makes a
	// topic.
	Partitions(ctx context.Context, topic string) (int32, error)
	// Send writes a record to its Topic and Partition, and answers where it was
	// written once all replicas in sync have it. It returns when ctx ends, with
	// ctx's error; the record may be written after that.
	Send(ctx context.Context, rec wire.Record) (partition int32, err error)
	// Chooses says whether the record's Partition decides. If not, the client's
	// own partitioner does, by the key, and comes to the same for all that is of
	// one project.
	Chooses() bool
	// Close gives back what the adapter made, not what it was given.
	Close() error
}

// Publisher writes requests. It is safe for concurrent use. The adapters make it.
type Publisher struct {
	sender  Sender
	topic   string
	timeout time.Duration
	key     *publishkey.Key
	close   func() error
}

// New makes a publisher of what an adapter made of a client.
func New(s Sender, o Options) *Publisher {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return &Publisher{
		sender: s, topic: o.Topics.Requests(), timeout: o.Timeout, key: o.Key, close: sync.OnceValue(s.Close),
	}
}

// Close ends what the adapter made for itself; the client it was given goes on.
// A second call does nothing.
func (p *Publisher) Close() error { return p.close() }

// Publish writes a request and answers when all replicas in sync have it. Its
// errors are *compute.Error:
//
//   - KindInvalid: the request can never be right, or is larger than the topic
//     takes; field, value and remedy are named. Nothing was sent, or nothing
//     was taken.
//   - KindNotFound, and wire.ErrNoTopic: the cell has no such topic. It is not
//     made.
//   - KindForbidden: Kafka does not allow it, or the Key is not for its project.
//   - KindUnavailable: not now. The record was not written, or perhaps.
//   - KindTimeout: no answer in time. Whether it was written is unknown.
//
// After the last two the same request may be published again, by this process
// or another: it is recognised by its instance id. What is OfHost goes to
// every partition, one after the other; they, too, may be repeated.
func (p *Publisher) Publish(ctx context.Context, q compute.Request) error {
	rec, err := Record(q)
	if err != nil {
		return err
	}
	if p.key != nil && !p.key.Projects().Allow(q.Project) {
		return &compute.Error{
			Op: op(q), Kind: compute.KindForbidden, Field: "project", Value: string(q.Project),
			Message: "is none that this publisher's key is for, which are " + string(p.key.Projects()),
			Remedy:  "ask the operator for a key: berth publisher enroll; what is about hosts needs one for all (*)",
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	for since := time.Now(); ; {
		err := p.try(ctx, q, rec)
		if !errors.Is(err, wire.ErrNoTopic) || time.Since(since) > lookFor ||
			!pause(ctx, lookApart-rand.N(lookApart/2)) { // #nosec G404 -- jitter
			return err
		}
	}
}

// A topic that is missing is looked for some times more: it may have been made
// a moment ago, and not every broker knows of it.
const (
	lookFor   = time.Second
	lookApart = 200 * time.Millisecond
)

// pause says whether ctx let it wait.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try is one try to publish.
func (p *Publisher) try(ctx context.Context, q compute.Request, rec wire.Record) error {
	n, err := p.sender.Partitions(ctx, p.topic)
	if err != nil {
		return p.failed(ctx, q, err)
	}
	if n < 1 {
		return p.failed(ctx, q, wire.ErrNoTopic)
	}
	if q.Op.OfHost() {
		return p.everywhere(ctx, q, rec, n)
	}
	return p.send(ctx, q, rec.To(p.topic, wire.Partition(q.Project, n)))
}

// everywhere writes what concerns all projects.
func (p *Publisher) everywhere(ctx context.Context, q compute.Request, rec wire.Record, partitions int32) error {
	if !p.sender.Chooses() {
		return &compute.Error{
			Op: op(q), Kind: compute.KindInvalid, Field: "partitioner", Value: "by key",
			Message: "cannot write to every partition, which " + q.Op.String() + " must",
			Remedy:  "give the client the partitioner that this adapter exports",
		}
	}
	for i := range partitions {
		if err := p.send(ctx, q, rec.To(p.topic, i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) send(ctx context.Context, q compute.Request, rec wire.Record) error {
	if p.key != nil {
		rec = p.key.Sign(rec)
	}
	at, err := p.sender.Send(ctx, rec)
	if err != nil {
		return p.failed(ctx, q, err)
	}
	if at != rec.Partition {
		return &compute.Error{
			Op: op(q), Kind: compute.KindInternal, Field: "partition", Value: fmt.Sprint(at),
			Message: fmt.Sprintf(
				"is not %d, where this project's requests belong; Berth will say so in its rejected topic",
				rec.Partition,
			),
			Remedy: "do not change the client's settings while it publishes; if partitions were added to the " +
				"topic, see docs/PUBLISHING.md",
		}
	}
	return nil
}

// failed adds what was being done and what to do about it.
func (p *Publisher) failed(ctx context.Context, q compute.Request, err error) error {
	if errors.Is(err, wire.ErrNoTopic) {
		return &compute.Error{
			Op: op(q), Kind: compute.KindNotFound, Field: "topic", Value: p.topic, Message: "does not exist",
			Remedy: "check the prefix of the cell; Berth makes the topic when one of its daemons first starts",
			Cause:  wire.ErrNoTopic,
		}
	}
	if ctx.Err() != nil { // whatever the client says of it
		err = &compute.Error{
			Kind: compute.KindTimeout, Message: "no answer came in time: whether it was written is unknown",
			Cause: err,
		}
	}
	var e *compute.Error
	if !errors.As(err, &e) {
		e = &compute.Error{Kind: compute.KindUnavailable, Message: "cannot be done now", Cause: err}
	}
	out := *e
	out.Op = op(q)
	if out.Kind == compute.KindTimeout || out.Kind == compute.KindUnavailable {
		out.Remedy = again(q)
	}
	return &out
}

func op(q compute.Request) string { return "publish " + q.Op.String() }

// again says how to repeat what may have been done.
func again(q compute.Request) string {
	switch {
	case q.Op.OfHost():
		return fmt.Sprintf("publish it again for host %s: a repeat changes nothing", q.Host)
	case q.Op == compute.OpChange:
		return fmt.Sprintf("publish it again for instance %s: it takes effect again, over what others changed meanwhile",
			q.Instance)
	case q.Op == compute.OpReboot:
		return fmt.Sprintf("publish it again for instance %s with command %q: it is done at most once",
			q.Instance, q.Command)
	}
	return fmt.Sprintf("publish it again with the same instance id %s: a repeat changes nothing", q.Instance)
}

// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// Source tells what changes, as client.Client's Events does.
type Source func(context.Context, client.Follow) iter.Seq2[client.Told, error]

// Options say what goes where.
type Options struct {
	To       string        // the receiver
	Secret   []byte        // what batches are signed with
	HTTP     *http.Client  // reaches the receiver
	Wanted   client.Follow // what is followed; where it begins is for the forwarder to say
	Source   string        // of the CloudEvents: whose they are
	Position Position
	Say      func(format string, args ...any) // tells people what is wrong, and that it is well again
}

// Run forwards until ctx ends, or until the receiver or the API wants no more.
func Run(ctx context.Context, events Source, o Options) error {
	f := &forwarder{Options: o, queue: make(chan Event, mostEvents)}
	f.to = endpoint{o.To, o.Secret, o.HTTP, o.Say}
	at, err := o.Position.Load()
	if err != nil {
		return err
	}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return f.read(inner, events, at) })
	group.Go(func() error { return f.post(inner) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// forwarder is one at work: one reads, and waits while another posts what was read.
type forwarder struct {
	Options
	to    endpoint
	queue chan Event
}

// apart is how long after the API could not be reached it is asked again.
const apart = 5 * time.Second

// read follows events, from a position on if there is one, else from how all is now. After a gap all that there is is
// told anew, since nobody knows what is missing. While the API cannot be reached it is asked again, for ever.
func (f *forwarder) read(ctx context.Context, events Source, at string) error {
	defer close(f.queue)
	for {
		next, again, err := f.follow(ctx, events, at)
		switch kind := compute.KindOf(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && kind != compute.KindUnavailable && kind != compute.KindTimeout:
			return err
		case err != nil:
			f.Say("%v; trying again", err)
			select {
			case <-ctx.Done():
			case <-time.After(apart):
			}
		case !again:
			return nil // the source has ended
		}
		at = next
	}
}

// follow follows once, until the source ends, or is to be asked again: to tell the present anew, where next is empty.
func (f *forwarder) follow(ctx context.Context, events Source, at string) (next string, again bool, err error) {
	ask := f.Wanted
	ask.After, ask.Present = at, at == ""
	ask.Reached = func(id string) {
		if at != "" { // else what there is has not been told yet
			at = id
			f.put(ctx, Event{behind: id})
		}
	}
	ask.Lost = func(err error) { f.Say("%v; trying again", err) }
	for told, err := range events(ctx, ask) {
		if err != nil {
			return at, true, err
		}
		e, is := eventOf(f.Source, told)
		switch told.Kind {
		case toldPresented:
			at, e.behind = told.Gap.ID, told.Gap.ID
		case toldGap:
			at = ""
		default:
			at = cmp.Or(told.ID, at)
		}
		if (is || e.behind != "") && !f.put(ctx, e) {
			return at, false, ctx.Err()
		}
		if told.Kind == toldGap && !ask.Present {
			return "", true, nil // of itself the node tells the present only where it was asked to
		}
	}
	return at, false, nil
}

func (f *forwarder) put(ctx context.Context, e Event) bool {
	select {
	case f.queue <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// post posts what was read, as much at once as there is, and notes how far the receiver has it, until nothing more is read.
func (f *forwarder) post(ctx context.Context) error {
	for e := range f.queue {
		batch, behind := f.batch(e)
		if len(batch) > 0 {
			if err := f.to.deliver(ctx, batch); err != nil {
				return err
			}
		}
		if behind == "" {
			continue
		}
		if err := f.Position.Save(behind, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// batch is what is there to be posted, first of all e, and the position behind it.
func (f *forwarder) batch(e Event) (batch []Event, behind string) {
	for more := true; more; {
		if e.Type != "" {
			batch = append(batch, e)
		}
		if e.behind != "" && e.Type != TypeGap { // behind a gap all is told anew first
			behind = e.behind
		}
		if len(batch) == mostEvents {
			break
		}
		select {
		case e, more = <-f.queue:
		default:
			more = false
		}
	}
	return batch, behind
}

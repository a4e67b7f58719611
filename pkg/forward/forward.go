// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
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

// Run forwards until ctx ends, or until the receiver or the API wants no more. While another forwarder has the position
// file it is refused (KindConflict).
func Run(ctx context.Context, events Source, o Options) error {
	f := &forwarder{Options: o, queue: newQueue()}
	f.to = newEndpoint(o)
	letGo, err := o.Position.Hold()
	if err != nil {
		return err
	}
	defer letGo()
	at, err := o.Position.Load()
	if err != nil {
		return err
	}
	if err := o.Position.probe(); err != nil {
		return err
	}
	f.heard = at != ""
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return f.read(inner, events, at) })
	group.Go(func() error { return f.post(inner) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// forwarder is one at work: one reads ahead while another posts what was read.
type forwarder struct {
	Options
	to    *endpoint
	queue *queue
	heard bool   // the API has told something, to this process or to the one that left the position
	run   string // of the present that is being told; empty: none is
}

// apart is how long after something could not be reached, or written, it is tried again.
const apart = 5 * time.Second

// read follows events, from a position on if there is one, else from how all is now. Unless the API refuses for a reason
// that stays, it is asked again, for ever.
func (f *forwarder) read(ctx context.Context, events Source, at string) error {
	defer f.queue.end()
	for {
		next, err := f.follow(ctx, events, at)
		if f.refused(err) {
			return err
		}
		if err == nil || ctx.Err() != nil { // the source has ended
			return ctx.Err()
		}
		f.Say("%v; trying again", err)
		if !service.Sleep(ctx, apart) {
			return ctx.Err()
		}
		at = next
	}
}

// refused says whether an error of the API stays, however often it is asked. What is no answer of Berth's is such a one
// only until the API was heard, as the address may be wrong: later it is of a proxy that has no API node to ask.
func (f *forwarder) refused(err error) bool {
	switch compute.KindOf(err) {
	case compute.KindUnauthenticated, compute.KindForbidden, compute.KindInvalid, compute.KindNotFound:
		return !f.heard || !client.IsForeign(err)
	}
	return false
}

// place is how far one question to the source was answered.
type place struct {
	at   string // where to go on; empty: with the present
	anew bool   // of the present that comes next nothing was told yet
	owed bool   // the receiver is told that the present comes, and not yet that it was that
}

// follow follows once, until the source ends. next is where to go on; empty: with the present.
func (f *forwarder) follow(ctx context.Context, events Source, at string) (next string, err error) {
	p := place{at: at, anew: at == ""}
	ask := f.Wanted
	ask.After, ask.Present = at, true // behind a position the present comes only after a gap
	ask.Reached = func(id string) {
		f.heard = true
		if p.at != "" { // else what there is has not been told yet
			p.at = id
			f.queue.put(ctx, Event{behind: id}, true)
		}
	}
	ask.Lost = func(err error) {
		f.Say("%v; trying again", err)
		p.anew = p.at == "" // the next connection tells the present from its beginning
	}
	for told, err := range events(ctx, ask) {
		if err == nil {
			err = f.hear(ctx, &p, told)
		}
		if err != nil {
			return p.at, err
		}
	}
	return p.at, nil
}

// hear has what is told wait for the receiver.
func (f *forwarder) hear(ctx context.Context, p *place, told client.Told) error {
	f.heard = true
	switch told.Kind {
	case client.ToldPresent, client.ToldPresented:
		if p.anew {
			f.begins(ctx)
		}
		p.anew, p.owed = false, true
	case client.ToldChange, client.ToldRemoved:
		if p.owed { // a node that still knows the position of before the gap goes on from there
			return errPresentBroken
		}
	}
	e := eventOf(f.Source, f.run, told)
	if (e.Type != "" || e.behind != "") && !f.queue.put(ctx, e, p.at != "") {
		return ctx.Err()
	}
	switch told.Kind {
	case client.ToldGap:
		*p = place{anew: true, owed: true}
	case client.ToldPresented:
		*p, f.run = place{at: told.Gap.ID}, ""
	default:
		p.at = cmp.Or(told.ID, p.at)
	}
	return nil
}

// errPresentBroken is that the rest of a present does not come.
var errPresentBroken = compute.Unavailable("follow events", errors.New("the present was broken off"))

// begins says that all that there is comes next. What waits of a present that was broken off is not posted any more.
func (f *forwarder) begins(ctx context.Context) {
	if f.run != "" {
		f.queue.drop(f.run)
	}
	f.run = "present-" + strconv.FormatInt(time.Now().UnixMicro(), 36)
	f.queue.put(ctx, Event{SpecVersion: "1.0", Source: f.Source, Type: TypeBegins, ID: f.run + "/begins"}, false)
}

// post posts what was read, as much at once as there is, and notes how far the receiver has it, until nothing more is
// read.
func (f *forwarder) post(ctx context.Context) error {
	for {
		batch, behind, more := f.queue.take(ctx, mostEvents)
		if !more {
			return ctx.Err()
		}
		if len(batch) > 0 {
			if err := f.to.deliver(ctx, batch); err != nil {
				return err
			}
		}
		for behind != "" {
			err := f.Position.Save(behind, time.Now())
			if err == nil {
				break
			}
			if f.Say("%v; trying again in %s", err, apart); !service.Sleep(ctx, apart) {
				return ctx.Err()
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// beginsWithin is how long a command waits, before it asks for anything, until changes are told. Where that takes
// longer, as behind a proxy that keeps a stream back, it goes on without them, and asks until they come after all.
const beginsWithin = time.Second

// A stream that is cut off so often, each time so soon after it began, is given up: a proxy has no patience with it,
// and to begin it anew costs more than to ask.
const (
	mostCuts = 3
	cutSoon  = 10 * time.Second
)

// watch hears what changes of some instances while a command waits for them. It begins before the command asks for
// anything, so that the log has no place between both, and goes on behind the last change over lost connections.
//
// A nil watch tells nothing, and is never live.
type watch struct {
	stop  context.CancelFunc
	ended chan struct{} // closed once nothing more is told
	begun chan struct{} // closed once changes are told, or it is known that they are not
	news  chan struct{} // holds one: told or live may have changed

	mu    sync.Mutex
	told  []client.Told
	live  bool      // changes are told as they happen
	since time.Time // when they began to be
	cuts  int       // how often in a row they ended soon after that
}

// watchInstances begins to watch these. It must be closed.
func watchInstances(ctx context.Context, c *client.Client, ids []compute.InstanceID) *watch {
	var f client.Follow
	if len(ids) == 1 {
		f.Instance = ids[0]
	}
	meant := make(map[compute.InstanceID]bool, len(ids))
	for _, id := range ids {
		meant[id] = true
	}
	return newWatch(ctx, c, f, func(e client.Event) bool { return meant[e.Instance] })
}

// newWatch begins to watch. Of the changes that are told those count that are meant.
func newWatch(ctx context.Context, c *client.Client, f client.Follow, meant func(client.Event) bool) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{
		stop: stop, ended: make(chan struct{}), begun: make(chan struct{}), news: make(chan struct{}, 1),
	}
	f.Reached = func(string) { w.change(true) }
	f.Lost = func(error) { w.change(false) }
	go func() {
		defer close(w.ended)
		for told, err := range c.Events(ctx, f) {
			switch {
			case err != nil:
			case told.Kind == client.ToldGap || meant(told.Event):
				w.change(true, told)
			default:
				w.change(true)
			}
		}
		w.change(false) // for good: the API has no such thing, refuses, or cannot be reached
	}()
	patience := time.NewTimer(beginsWithin)
	defer patience.Stop()
	select {
	case <-w.begun:
	case <-w.ended:
	case <-patience.C:
	case <-ctx.Done():
	}
	return w
}

func (w *watch) change(live bool, told ...client.Told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if live && !isClosed(w.begun) {
		close(w.begun)
	}
	switch {
	case w.live == live && len(told) == 0:
		return
	case live && !w.live:
		w.since = time.Now()
	case !live && time.Since(w.since) >= cutSoon:
		w.cuts = 0
	case !live:
		if w.cuts++; w.cuts == mostCuts {
			w.stop()
		}
	}
	w.live, w.told = live, append(w.told, told...)
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// take is what was told since the last call, and whether more is told as it happens.
func (w *watch) take() (told []client.Told, live bool) {
	if w == nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	told, w.told = w.told, nil
	return told, w.live
}

// changed has something when take may have.
func (w *watch) changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.news
}

// close ends it. A second call does nothing.
func (w *watch) close() {
	if w != nil {
		w.stop()
		<-w.ended
	}
}

// waited is what is known of the instances that a command waits for: by answers of the API, and by changes since.
type waited struct {
	ids   []compute.InstanceID
	open  []compute.InstanceID // of them, those that no answer has said to be done
	known map[compute.InstanceID]client.Instance
	gone  map[compute.InstanceID]int // answers in a row that there is none, of what was shown before
	done  func(client.Instance) bool
}

// mostGone is how many answers in a row end a wait that say that there is no such instance, though one was shown: its
// record was removed, or the cell is another one.
const mostGone = 10

func newWaited(ids []compute.InstanceID, done func(client.Instance) bool) *waited {
	return &waited{ids: ids, open: slices.Clone(ids), known: make(map[compute.InstanceID]client.Instance, len(ids)),
		gone: map[compute.InstanceID]int{}, done: done}
}

// list is all that are known, in the order of ids.
func (w *waited) list() (all []client.Instance) {
	for _, id := range w.ids {
		if i, ok := w.known[id]; ok {
			all = append(all, i)
		}
	}
	return all
}

// ask asks for those that are open.
func (w *waited) ask(ctx context.Context, c *client.Client) error {
	some, err := c.Instances(ctx, client.Filter{IDs: w.open, All: true})
	if err != nil {
		return err
	}
	for _, i := range some {
		w.answered(i)
	}
	for _, id := range w.open {
		if slices.ContainsFunc(some, func(i client.Instance) bool { return i.ID == id }) {
			continue
		}
		// The node may not have read of it yet, or a conductor has rejected the request: this tells which.
		i, err := c.Instance(ctx, id)
		switch {
		case err == nil:
			w.answered(i)
		case compute.KindOf(err) != compute.KindNotFound || w.known[id].Version == 0:
			return err
		default: // this node may have read less than the one that showed it; but not for long
			if w.gone[id]++; w.gone[id] >= mostGone {
				return err
			}
			return compute.Unavailable("wait", err)
		}
	}
	return nil
}

// answered takes an instance as the API shows it. A node that has read less than is known has nothing new.
func (w *waited) answered(i client.Instance) {
	delete(w.gone, i.ID)
	if i.Version >= w.known[i.ID].Version {
		w.known[i.ID] = i
	}
}

// settle closes those that are done, and says whether all are.
func (w *waited) settle() bool {
	w.open = slices.DeleteFunc(w.open, w.isDone)
	return len(w.open) == 0
}

func (w *waited) isDone(id compute.InstanceID) bool {
	i, ok := w.known[id]
	return ok && w.done(i)
}

// hears takes what was told, and says how soon the API is to be asked: at once when all are done, to show them whole;
// soon where a change leaves open what an answer says, as why an instance is queued.
func (w *waited) hears(all []client.Told) urgency {
	urgent := calmly
	for _, told := range all {
		i, ok := w.known[told.Event.Instance]
		switch {
		case told.Kind != client.ToldChange, ok && told.Event.Version > i.Version+1, told.Event.State == "queued":
			urgent = soonest
		}
		if told.Kind == client.ToldChange && told.Event.Version > i.Version {
			w.known[told.Event.Instance] = changed(i, told.Event)
		}
	}
	if !slices.ContainsFunc(w.open, func(id compute.InstanceID) bool { return !w.isDone(id) }) {
		return atOnce
	}
	return urgent
}

// changed is an instance after a change, as far as the change tells: what else is known of it stays.
func changed(i client.Instance, e client.Event) client.Instance {
	i.ID, i.Project, i.Name, i.Metadata, i.Version = e.Instance, e.Project, e.Name, e.Metadata, e.Version
	if i.State != e.State {
		i.State, i.Waiting, i.Reason = e.State, nil, nil
	}
	i.Host, i.Attempt, i.Power, i.Delete = e.Host, e.Attempt, e.Power, i.Delete || e.Delete
	switch {
	case e.Reason == nil:
	case e.State == "active":
		i.Stopped = e.Reason
	default:
		i.Reason = e.Reason
	}
	if e.Command != nil {
		i.Command = e.Command
	}
	if e.Answer != nil {
		i.Answer = e.Answer
		if i.Command != nil && i.Command.Command == e.Answer.Command {
			i.Command = nil
		}
	}
	return i
}

// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sse"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Follow says which changes of instances are wanted. All that is set must apply.
type Follow struct {
	AllProjects bool // instead of the client's own; operators may
	Instance    compute.InstanceID
	Host        compute.HostID // that has it after the change, or had it before
	States      []compute.State
	Reasons     []compute.ReasonCode
	Labels      []string // as compute.ParseSelector reads them

	After   string    // the ID of a Told: what comes behind it; empty: see Since
	Since   time.Time // without After: what the node knows since then; zero: what comes from now on
	Present bool      // begin with how the instances are, and after each gap again
	Once    bool      // end when all is told that there is

	// Lost hears that the connection is lost, and why, before it is made again; nil: nobody does.
	Lost func(error)
	// Reached hears of a position at which there was nothing to tell, as an After to go on with; nil: nobody does.
	Reached func(id string)
}

// The kinds of what is told.
const (
	ToldChange    = rest.EventChange
	ToldRemoved   = rest.EventRemoved
	ToldPresent   = rest.EventPresent
	ToldPresented = rest.EventPresented
	ToldGap       = rest.EventGap
)

// Told is one thing that a follower hears.
type Told struct {
	Kind  string    // ToldChange, ToldRemoved, ToldPresent, ToldPresented or ToldGap
	Event Event     // of the first three
	Gap   EventsGap // of EventGap
	ID    string    // goes on behind it, as Follow.After
}

const (
	silentFor  = 45 * time.Second // three blocks that a node would have sent
	mostPause  = 30 * time.Second
	maxSSELine = 4 << 20
)

// Events follows what changes, until ctx ends or the caller breaks off. A connection that breaks, or that the node
// ends, is made again, for as long as it takes, also while something else than a node answers, and goes on behind what
// came last: nothing comes twice, and what may be missing is told as a gap. Only a present that breaks off before its
// ToldPresented begins anew: when Follow.Lost is called, what was told of it does not count any more. An error is the
// last that comes: the API refuses, or could not be reached in the first place within the client's patience.
// Config.Timeout is how long the beginning of an answer may take.
func (c *Client) Events(ctx context.Context, f Follow) iter.Seq2[Told, error] {
	return func(yield func(Told, error) bool) {
		e := &following{Client: c, ask: f, yield: yield, last: f.After, least: firstBackoff, pause: firstBackoff}
		e.stream = *c.http
		e.stream.Timeout = 0 // it takes as long as somebody listens; only its beginning has to come in time
		err := repeat(ctx, c.patience, func() attempt {
			a := e.once(ctx)
			a.again = a.again && !e.met
			return a
		})
		for {
			over, failed := e.over(ctx, err)
			switch {
			case over && failed != nil:
				yield(Told{}, failed)
				return
			case over:
				return
			case f.Lost != nil:
				f.Lost(err)
			}
			err = e.again(ctx)
		}
	}
}

// errBrokenOff is that the caller wants no more; errCaughtUp that there is no more.
var (
	errBrokenOff = errors.New("broken off")
	errCaughtUp  = errors.New("caught up")
)

// following is a follower at work.
type following struct {
	*Client
	ask    Follow
	stream http.Client
	yield  func(Told, error) bool
	last   string        // id
	least  time.Duration // how long to wait before the next connection, as the node says
	pause  time.Duration // likewise, after failures in a row
	met    bool          // there was a connection on which something came
	asked  attempt       // how the last one ended
}

// again makes the next connection, after a pause.
func (e *following) again(ctx context.Context) error {
	wait := max(e.pause, e.asked.after)
	if !sleep(ctx, wait+rand.N(wait/2+1)) { // #nosec G404 -- jitter
		return ctx.Err()
	}
	e.pause = min(2*e.pause, mostPause)
	return e.once(ctx).err
}

// IsForeign says whether an error is of an answer that is none of an API node's: a proxy's, say, that has no node to
// ask.
func IsForeign(err error) bool { return rest.IsForeign(err) }

// over says whether a connection was the last one, and with which error for the caller.
func (e *following) over(ctx context.Context, err error) (over bool, failed error) {
	switch {
	case errors.Is(err, errBrokenOff), errors.Is(err, errCaughtUp), ctx.Err() != nil:
		return true, nil
	case !e.met:
		return true, err
	case IsForeign(err):
		return false, nil
	}
	switch compute.KindOf(err) {
	case compute.KindUnavailable, compute.KindTimeout:
		return false, nil
	}
	return true, err
}

// once makes one connection and hands over what comes on it.
func (e *following) once(caller context.Context) (out attempt) {
	defer func() { e.asked = out }()
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	const op = "follow events"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.address().String(), nil)
	if err != nil {
		return attempt{err: &compute.Error{Op: op, Kind: compute.KindInternal, Cause: err}}
	}
	req.Header.Set("Accept", sse.ContentType)
	if e.last != "" {
		req.Header.Set("Last-Event-ID", e.last)
	}
	e.signIn(req)
	silent := time.AfterFunc(cmp.Or(e.http.Timeout, silentFor), cancel)
	defer silent.Stop()
	resp, err := e.stream.Do(req) // #nosec G704 -- the address is the caller's own
	if err != nil && ctx.Err() != nil && caller.Err() == nil {
		err = context.DeadlineExceeded // of silent
	}
	if err != nil {
		return attempt{err: e.unreachable(op, err, false), again: brokeOff(err)}
	}
	defer func() { _ = resp.Body.Close() }() // reading is over: nothing can be lost
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(resp.Body, maxSSELine)) // what is cut off is no problem document
		after, again := asksToRepeat(resp)
		return attempt{err: problem(resp, data), again: again, after: after}
	}
	if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); kind != sse.ContentType {
		return attempt{err: rest.Foreign(resp.StatusCode)}
	}
	silent.Reset(silentFor)
	return attempt{err: e.read(op, resp.Body, silent)}
}

// read hands over what comes on a connection.
func (e *following) read(op string, body io.Reader, silent *time.Timer) error {
	blocks := sse.NewReader(body, maxSSELine)
	for {
		b, err := blocks.Next()
		if err != nil {
			return &compute.Error{Op: op, Kind: compute.KindUnavailable, Message: "the connection is lost", Cause: err}
		}
		silent.Stop() // what is told may take its caller long
		e.met = true
		if b.Retry > 0 {
			e.least = b.Retry
		}
		e.pause = e.least
		if err := e.take(b); err != nil {
			return err
		}
		silent.Reset(silentFor)
	}
}

// take hands over one block.
func (e *following) take(b sse.Event) error {
	if b.ID != "" {
		e.last = b.ID
	}
	told := Told{Kind: b.Name, ID: b.ID}
	var err error
	switch b.Name {
	case rest.EventChange, rest.EventRemoved, rest.EventPresent:
		err = json.Unmarshal(b.Data, &told.Event)
	case rest.EventGap, rest.EventPresented:
		err = json.Unmarshal(b.Data, &told.Gap)
	case rest.EventEnd:
		return ended(b.Data)
	default: // an id and nothing else, or what a later version says
		if b.ID != "" && e.ask.Reached != nil {
			e.ask.Reached(b.ID)
		}
		return nil
	}
	if err != nil {
		return garbled(err)
	}
	if b.Name == rest.EventGap && e.ask.Present {
		e.last = "" // the present comes next: a node that still knows the position would tell none
	}
	if !e.yield(told, nil) {
		return errBrokenOff
	}
	return nil
}

// garbled is that an event cannot be read. It would not be readable on another connection either.
func garbled(cause error) error {
	return &compute.Error{
		Op: "follow events", Kind: compute.KindInternal, Message: "an event cannot be read",
		Remedy: "is this the address of a Berth API node?", Cause: cause,
	}
}

// ended is why the node ends the stream.
func ended(data []byte) error {
	var end rest.EventsEnd
	if err := json.Unmarshal(data, &end); err != nil {
		return garbled(err)
	}
	if end.Why == "caught-up" {
		return errCaughtUp
	}
	return &compute.Error{Op: "follow events", Kind: compute.KindUnavailable, Message: end.Message}
}

// address is what is asked for.
func (e *following) address() *url.URL {
	q := e.scoped()
	if e.ask.AllProjects {
		q.Set("project", "*")
	}
	for key, value := range map[string]string{"instance": string(e.ask.Instance), "host": string(e.ask.Host)} {
		if value != "" {
			q.Set(key, value)
		}
	}
	for _, s := range e.ask.States {
		q.Add("state", s.String())
	}
	for _, label := range e.ask.Labels {
		q.Add("label", label)
	}
	for _, r := range e.ask.Reasons {
		q.Add("reason", string(r))
	}
	if !e.ask.Since.IsZero() && e.last == "" {
		q.Set("since", e.ask.Since.UTC().Format(time.RFC3339Nano))
	}
	if e.ask.Present {
		q.Set("present", "true")
	}
	if e.ask.Once {
		q.Set("follow", "false")
	}
	u := e.base.JoinPath("v1", "events")
	u.RawQuery = q.Encode()
	return u
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

const consoleDescription = "A part of what the machine printed, as its host has it now. Offsets count all that " +
	"it ever printed, " +
	"over stops and reboots; of the oldest part as much is kept as the host is told to. To go on, ask for " +
	"offset + the length of data. 409 if it is on no host, or its hypervisor keeps no consoles; 429 with " +
	"Retry-After when too many ask this node at once, or one caller does for a quarter of all; 504 with the host " +
	"and when it was last heard if it does not answer, at once where it is silent."

func (s *Server) routeConsole(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "show-console", Method: http.MethodGet, Path: "/v1/instances/{id}/console",
		Tags:    []string{"instances"},
		Summary: "Read a machine's serial console", Description: consoleDescription,
	}, s.console)
}

type consoleInput struct {
	InstanceInput
	Offset int64 `query:"offset" default:"-65536" minimum:"-9000000000000000" maximum:"9000000000000000" doc:"Of the first byte wanted; negative: so many before the end."`
	Limit  int   `query:"limit" default:"65536" minimum:"1" maximum:"65536" doc:"Most bytes."`
}

type consoleOutput struct{ Body rest.Console }

// console asks the host that has the machine, through its stream, and waits for
// the one answer there may be.
func (s *Server) console(ctx context.Context, in *consoleInput) (*consoleOutput, error) {
	at, err := in.instanceKey()
	if err != nil {
		return nil, err
	}
	host, err := s.hostOf(ctx, at)
	if err != nil {
		return nil, err
	}
	show := s.presenter(ctx)
	// Whoever asks a silent host again and again would keep the places of others. At a node that is cut off from beacons
	// all hosts seem silent.
	if show.isSilent(host) && !s.views.hosts.late(time.Now()) {
		return nil, s.errUnanswered(host, show, "is silent and was not asked", "try again once it is heard again")
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.ConsoleTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	ask := compute.ConsoleAsk{
		ID: compute.AskID(uuid.NewString()), Offset: in.Offset, Limit: uint32(in.Limit),
		Deadline: deadline.Round(0).UTC(),
	}
	answer, done, err := s.asks.open(ask.ID, consoleAsk{host: host, at: at, caller: s.boundedCaller(ctx)})
	if err != nil {
		return nil, err
	}
	defer done()
	if s.config.Consoles != nil {
		stop, err := s.config.Consoles.Listen(ctx)
		if err != nil {
			return nil, compute.Unavailable("listen for consoles", err)
		}
		defer stop()
	}
	cmd := compute.Command{
		Op: compute.CommandConsole, Project: at.project, Instance: at.id, Console: &ask, At: s.config.Now().UTC(),
		Trace: traceOf(in.Traceparent),
	}
	if err := s.send(ctx, wire.EncodeCommand(cmd).To(s.config.Topics.Host(host), 0)); err != nil {
		return nil, show.notSent(err, host)
	}
	select {
	case c := <-answer:
		if err := refusedConsole(c, show); err != nil {
			return nil, err
		}
		c.Host = show.host(c.Host)
		return &consoleOutput{Body: rest.FromConsole(c)}, nil
	case <-ctx.Done():
		return nil, s.errUnanswered(host, show, fmt.Sprintf("did not answer within %s", s.config.ConsoleTimeout),
			"try again; if its agent runs, it may be older than this node, or its clock may be wrong")
	}
}

// boundedCaller is by whom it is counted what one caller has at once; empty where nobody signs in, and all are one.
func (s *Server) boundedCaller(ctx context.Context) string {
	if s.door.open() {
		return ""
	}
	return callerOf(ctx).ID
}

// hostOf finds the host that has the machine.
func (s *Server) hostOf(ctx context.Context, at instanceKey) (compute.HostID, error) {
	k, err := s.find(ctx, at)
	if err == nil && (k.instance == nil || !k.instance.State.OnHost()) { // others may know better
		if err = s.catchUp(ctx, at.project); err == nil {
			k, err = s.find(ctx, at)
		}
	}
	if err != nil {
		return "", err
	}
	state := compute.StateAccepted
	if k.instance != nil {
		state = k.instance.State
	}
	switch {
	case k.boot().IsPlaceholder():
		return "", errNoMachine(at.id, k.boot())
	case state.OnHost():
		return k.instance.Host, nil
	case state.Ended():
		return "", compute.Conflict("instance", string(at.id), "is "+state.String(), "consoles go with their machines")
	}
	return "", compute.Conflict("instance", string(at.id), "is "+state.String()+" and on no host yet",
		"wait until it is active")
}

// errUnanswered says which host did not answer, and what is known of it.
func (s *Server) errUnanswered(h compute.HostID, show *presenter, message, remedy string) error {
	heard := "and was never heard of"
	if last, ok := s.views.hosts.get(h); ok {
		heard = "and was last heard " + last.age(s.moment()).Truncate(time.Second).String() + " ago"
	}
	return &compute.Error{
		Kind: compute.KindTimeout, Field: "host", Value: string(show.host(h)),
		Message: message + ", " + heard, Remedy: remedy,
	}
}

// refusedConsole is why a host does not show a console; nil if it does.
func refusedConsole(c compute.Console, show *presenter) error {
	e := compute.Conflict("host", string(show.host(c.Host)), "", "")
	switch c.Refusal {
	case compute.ConsoleRead:
		return nil
	case compute.ConsoleNotKept:
		e.Message, e.Remedy = "keeps no consoles", "use a hypervisor driver that does"
	case compute.ConsoleNotHere:
		e.Message, e.Remedy = "does not have the machine (any more)", "look at the instance again"
	default:
		e.Kind, e.Message, e.Remedy = compute.KindUnavailable, "could not read the console", "try again"
	}
	if c.Message != "" {
		e.Message += ": " + show.text(c.Message, c.Host)
	}
	return e
}

// Consoles takes records of the consoles topic, in any order. Those that nobody
// at this node asked for are other nodes'.
func (s *Server) Consoles(recs []wire.Record, _ bool) {
	for _, rec := range recs {
		c, err := wire.DecodeConsole(rec)
		if err != nil {
			s.views.logUnreadable("consoles", rec, err)
			continue
		}
		s.asks.answer(c)
	}
}

// consoleAsks are the open questions of this node about consoles.
type consoleAsks struct {
	limit    int
	ofCaller int // of them, of one caller

	mu  sync.Mutex
	all map[compute.AskID]consoleAsk
}

type consoleAsk struct {
	host   compute.HostID
	at     instanceKey
	caller string               // the caller that waits for it; empty: it has no bound of its own
	answer chan compute.Console // holds one
}

func newConsoleAsks(most int) *consoleAsks {
	return &consoleAsks{limit: most, ofCaller: max(1, most/shareOfALone), all: map[compute.AskID]consoleAsk{}}
}

// open begins to wait for an answer; done must be called.
func (a *consoleAsks) open(
	id compute.AskID, q consoleAsk,
) (answer <-chan compute.Console, done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) >= a.limit {
		return nil, nil, tooMany("limits.consoles", strconv.Itoa(a.limit),
			"so many wait for consoles at this node already")
	}
	if q.caller != "" && a.of(q.caller) >= a.ofCaller {
		return nil, nil, tooMany("limits.consoles", strconv.Itoa(a.limit),
			fmt.Sprintf("%d of those that wait for consoles are yours, and one caller may have no more", a.ofCaller))
	}
	q.answer = make(chan compute.Console, 1)
	a.all[id] = q
	return q.answer, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, id)
	}, nil
}

// of is how many are a caller's; with the lock held.
func (a *consoleAsks) of(caller string) (n int) {
	for _, q := range a.all {
		if q.caller == caller {
			n++
		}
	}
	return n
}

// answer hands an answer to the request that waits for it: only the first one, and only
// from the host that was asked, about the instance that was asked about.
func (a *consoleAsks) answer(c compute.Console) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q, ok := a.all[c.Ask]
	if !ok || q.host != c.Host || q.at != (instanceKey{c.Project, c.Instance}) {
		return
	}
	select {
	case q.answer <- c:
	default:
	}
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// fenceAnswerTimeout is how long an answer that waits for a fence command may take. The
// command itself has a time-out of its own (fence.timeout).
const fenceAnswerTimeout = 10 * time.Minute

func (s *Server) routeDeadHosts(api huma.API) {
	for _, w := range []struct {
		op                     compute.RequestOp
		verb, summary, details string
	}{
		{
			compute.OpFence, "evacuate", "Build elsewhere what a dead host had",
			"For a host that is dead for certain. What was starting or active there is built elsewhere, with " +
				"a new attempt; what was being deleted is deleted. What is pinned to it ends with HostLost " +
				"if it was active and waits for the host otherwise; what was active and is no longer offered " +
				"ends, too. With one that ends all of its set ends, until each of that has run. The answer says what " +
				"becomes of each. May be repeated; after a 504 it has to be.",
		},
		{
			compute.OpForget, "forget", "End what a host had that is gone for good",
			"For a host that is dead for certain and never comes back. What was active there ends with " +
				"HostLost, what was starting is built elsewhere, what is pinned to it ends, and the host is " +
				"not listed any more. With one that ends all of its set ends, until each of that has run. The " +
				"answer says what becomes of each. May be repeated; after a 504 it has to be.",
		},
	} {
		route(s, api, huma.Operation{
			OperationID: w.verb + "-host", Method: http.MethodPost, Path: "/v1/hosts/{host}/" + w.verb,
			Tags:          []string{"hosts"},
			DefaultStatus: http.StatusAccepted, Summary: w.summary, Description: w.details,
			Middlewares: huma.Middlewares{extendWriteDeadline},
		}, func(ctx context.Context, in *deadHostInput) (*deadHostOutput, error) {
			return s.deadHost(ctx, in, w.op, w.verb)
		})
	}
}

// extendWriteDeadline lets an answer wait for longer than the server allows others.
func extendWriteDeadline(ctx huma.Context, next func(huma.Context)) {
	_, w := humago.Unwrap(ctx)
	// a writer without deadlines has none to put off
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(fenceAnswerTimeout))
	next(ctx)
}

type deadHostInput struct {
	Host        compute.HostID `path:"host"`
	Traceparent string         `header:"traceparent" hidden:"true"`
	Body        *rest.DeadHost `required:"false"`
	from        string         // the caller's address
}

// Resolve notes the caller's address.
func (in *deadHostInput) Resolve(ctx huma.Context) []error {
	in.from = ctx.RemoteAddr()
	return nil
}

type deadHostOutput struct{ Body rest.HostDead }

// deadHost makes certain that a host is dead, says so in its stream, and only
// then tells every conductor: a host that comes back reads that it must destroy
// what it had before anybody else can start it.
func (s *Server) deadHost(
	ctx context.Context, in *deadHostInput, op compute.RequestOp, verb string,
) (*deadHostOutput, error) {
	var word rest.DeadHost
	if in.Body != nil {
		word = *in.Body
	}
	if err := s.checkDead(ctx, in.Host, word.Force); err != nil {
		return nil, err
	}
	log := s.log.With(zap.String("host", string(in.Host)), zap.String("what", verb),
		zap.Bool("by_the_operators_word", word.Fenced), zap.Bool("force", word.Force),
		zap.String("reason", word.Reason), zap.String("by", word.By), zap.String("from", in.from))
	if !word.Fenced {
		// The caller may go away while the host is switched off.
		if err := s.runFence(context.WithoutCancel(ctx), in.Host); err != nil {
			log.Warn("host is not declared dead: it is not certain that it is", zap.Error(err))
			return nil, err
		}
	}
	if err := s.awaitSilence(ctx, in.Host); err != nil {
		log.Warn("host is not declared dead: it was heard of lately", zap.Error(err))
		return nil, afterFence(err, word)
	}
	ctx = context.WithoutCancel(ctx) // a half-told fence has to be told again
	out, err := s.declareDead(ctx, in.Host, op, traceOf(in.Traceparent))
	log = log.With(zap.Uint64("fence", uint64(out.Fence)), zap.String("instances", countsOf(out)))
	if err != nil {
		log.Warn("host is declared dead, but perhaps not to all: it has to be said again", zap.Error(err))
		return nil, afterFence(err, word)
	}
	log.Info("host is declared dead")
	return &deadHostOutput{Body: out}, nil
}

// checkDead refuses a host that nobody knows, and one that lives; not that with
// force.
func (s *Server) checkDead(ctx context.Context, h compute.HostID, force bool) error {
	if err := h.Check(); err != nil {
		return err
	}
	// what it has is counted, and Kafka should answer before a host is switched off
	if err := s.catchUp(ctx, allProjects); err != nil {
		return err
	}
	if err := s.hearHosts(ctx); err != nil {
		return err
	}
	last, listed := s.views.hosts.heard(h)
	// One that was forgotten is known: where that was not told to all conductors it has to be said again.
	if known := listed || !last.at.IsZero(); !known && len(s.views.instances.onHost(h)) == 0 {
		_, err := s.host(h)
		return err
	}
	// All beacons were read to the end: an hour that the newest lies back in the log is an hour of silence.
	if ago := last.age(s.moment()); ago <= s.config.DeadAfter && !force {
		return s.errAlive(h, ago)
	}
	return nil
}

func (s *Server) errAlive(h compute.HostID, ago time.Duration) error {
	return &compute.Error{
		Kind: compute.KindConflict, Field: "host", Value: string(h),
		Message: fmt.Sprintf("it is alive: it was heard %s ago", ago.Truncate(time.Second)),
		Remedy: fmt.Sprintf("drain it instead; or, if it is dead for certain, say so again in %s, when it has "+
			"been silent for %s, or say force, which waits for that",
			s.silenceLeft(ago), s.config.DeadAfter),
	}
}

// silenceLeft is how long a host has to be silent yet.
func (s *Server) silenceLeft(ago time.Duration) time.Duration {
	return (s.config.DeadAfter - ago).Truncate(time.Second) + time.Second
}

// lastBeaconWithin is how long after a host has ended its last beacon may be heard.
const lastBeaconWithin = 10 * time.Second

// awaitSilence waits until a host was not heard of for so long that conductors
// believe that it is dead: until then they reject that, and the host has destroyed
// what it had for nothing. One that goes on to be heard is not dead.
func (s *Server) awaitSilence(ctx context.Context, h compute.HostID) error {
	began := time.Now()
	for {
		last, _ := s.views.hosts.heard(h)
		ago := last.age(s.moment())
		switch {
		case ago > s.config.DeadAfter:
			// Perhaps this node was cut off and heard of nobody: what was said meanwhile counts.
			if err := s.hearHosts(ctx); err != nil {
				return err
			}
			if now, _ := s.views.hosts.heard(h); now.at.Equal(last.at) {
				return nil
			}
			continue
		case last.at.Sub(began) > lastBeaconWithin:
			return s.errAlive(h, ago)
		}
		select {
		case <-time.After(min(s.config.DeadAfter-ago+time.Millisecond, time.Second)):
		case <-ctx.Done():
			return &compute.Error{
				Kind: compute.KindTimeout, Field: "host", Value: string(h),
				Message: "it has not been silent for long enough, and was not declared dead",
				Remedy:  fmt.Sprintf("say it again in %s", s.silenceLeft(ago)), Cause: ctx.Err(),
			}
		}
	}
}

// afterFence says of an error that the fence command has switched the host off before it, where it was run.
func afterFence(err error, word rest.DeadHost) error {
	var e *compute.Error
	if word.Fenced || !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Message = strings.TrimPrefix(e.Message+"; the fence command has switched the host off", "; ")
	if e.Kind == compute.KindUnavailable { // of which others say that nothing was done
		out.Remedy = "say it again in a moment; the host was not declared dead"
	}
	if later, ok := err.(*retryLater); ok {
		return &retryLater{why: &out, status: later.status, after: later.after}
	}
	return &out
}

// hearHosts returns once all beacons that were acknowledged before the call are in the view.
func (s *Server) hearHosts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.SyncTimeout)
	defer cancel()
	if err := s.config.Heard.Sync(ctx); err != nil {
		return &retryLater{after: refusedFor, why: &compute.Error{
			Op: "hear hosts", Kind: compute.KindUnavailable,
			Message: "Kafka does not answer, so it is not known whether the host is silent",
			Remedy:  "try again in a moment; the host was not declared dead", Cause: err,
		}}
	}
	return nil
}

// runFence runs the operator's fence command.
func (s *Server) runFence(ctx context.Context, h compute.HostID) error {
	if s.config.Fencer == nil {
		return &compute.Error{
			Kind: compute.KindConflict, Field: "host", Value: string(h),
			Message: "nobody has made certain that it is dead",
			Remedy: "see to it that the host is off, and say so: --fenced, or \"fenced\": true; or give the API " +
				"nodes a fence.command that switches hosts off",
		}
	}
	if err := s.config.Fencer.Fence(ctx, h); err != nil {
		return err
	}
	audit.Acted(ctx)
	return nil
}

// declareDead writes the fence, then tells every partition. What it answers
// holds, as far as it came, also with an error.
func (s *Server) declareDead(
	ctx context.Context, h compute.HostID, op compute.RequestOp, trace compute.Trace,
) (rest.HostDead, error) {
	out := rest.HostDead{Host: h, Instances: map[string]int{}}
	now := s.config.Now().UTC()
	fenced := compute.Command{Op: compute.CommandFenced, At: now, Trace: trace}
	rec := wire.EncodeCommand(fenced).To(s.config.Topics.Host(h), 0)
	var offset int64
	err := s.withBreaker(ctx, place{topic: rec.Topic, partition: rec.Partition}, func(ctx context.Context) (err error) {
		offset, err = s.config.Publisher.Append(ctx, rec)
		return err
	})
	if err != nil {
		return out, repeatable(err, false)
	}
	out.Fence = compute.FenceEpoch(offset) + 1
	s.addFates(&out, op)
	word := wire.EncodeRequest(compute.Request{Op: op, Host: h, Fence: out.Fence, At: now, Trace: trace})
	recs := make([]wire.Record, s.config.Partitions)
	for p := range recs {
		recs[p] = word.To(s.config.Topics.Requests(), int32(p))
	}
	if op == compute.OpForget {
		recs = append(recs, wire.Tombstone(wire.KeyHost(h)).To(s.config.Topics.Hosts(), wire.AnyPartition))
	}
	all := place{topic: s.config.Topics.Requests(), partition: everyPartition}
	err = s.withBreaker(ctx, all, func(ctx context.Context) error {
		return s.config.Publisher.Send(ctx, recs...)
	})
	return out, repeatable(err, true)
}

// maxFates is how many instances an answer names.
const maxFates = 1000

// addFates says what a fence makes of what the host has, of what is pinned to
// it and queued, and of others of their sets. A fence does not touch what the host claimed under it.
func (s *Server) addFates(out *rest.HostDead, op compute.RequestOp) {
	touched := slices.DeleteFunc(s.views.instances.onHost(out.Host), func(k entry) bool {
		// A later epoch than the newest is none: the conductors find that out, and spare nothing for it.
		return k.instance.State.OnHost() && k.instance.Fence == out.Fence
	})
	var lost []*compute.Instance
	place := map[instanceKey]int{} // others last
	slices.SortFunc(touched, entry.compare)
	slices.SortStableFunc(touched, func(a, b entry) int { // before them those that are queued
		return sorted.TrueFirst(a.state().OnHost(), b.state().OnHost())
	})
	for n, k := range touched {
		lost = append(lost, k.instance)
		place[k.key()] = n - len(touched)
	}
	fates := compute.FatesOf(lost, op, s.views.instances.mates, s.buildable)
	slices.SortStableFunc(fates, func(a, b compute.Foreseen) int {
		return cmp.Compare(place[keyOf(a.Instance)], place[keyOf(b.Instance)])
	})
	for _, f := range fates {
		i := f.Instance
		fate := rest.HostFate{
			ID: i.ID, Project: i.Project, Name: i.Boot.Name, State: i.State.String(), Becomes: f.Becomes, Reason: f.Reason,
		}
		if place[keyOf(i)] == 0 {
			fate.Other = true
			out.Others++
		} else {
			out.Instances[i.State.String()]++
			if out.Becomes == nil {
				out.Becomes = map[string]int{}
			}
			out.Becomes[string(f.Becomes)]++
		}
		if len(out.Fates) < maxFates {
			out.Fates = append(out.Fates, fate)
		}
	}
}

func keyOf(i *compute.Instance) instanceKey { return instanceKey{i.Project, i.ID} }

// buildable says whether there is a queue to build it from, or will be.
func (s *Server) buildable(i *compute.Instance) bool {
	return s.views.queues.get(i.Queue) != nil || s.checkCatalog(i.Boot) == nil
}

// repeatable says of an error that the whole may be said again. Once begun, it is a
// time-out whatever it was: some know it, and some do not.
func repeatable(err error, begun bool) error {
	var e *compute.Error
	if err == nil || !errors.As(err, &e) || !begun && e.Kind != compute.KindTimeout {
		return err
	}
	return &compute.Error{
		Op: e.Op, Kind: compute.KindTimeout,
		Message: "it is not known whether all conductors have been told that the host is dead",
		Remedy:  "say it again, until it is answered: what was done is not done twice", Cause: err,
	}
}

// countsOf is "active 3, deleting 1".
func countsOf(h rest.HostDead) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(h.Instances)) {
		parts = append(parts, state+" "+strconv.Itoa(h.Instances[state]))
	}
	return strings.Join(parts, ", ")
}

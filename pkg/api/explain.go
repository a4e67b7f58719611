// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeExplain(api huma.API) {
	tags := []string{"instances"}
	route(s, api, huma.Operation{
		OperationID: "explain-instance", Method: http.MethodGet, Path: "/v1/instances/{id}/explain", Tags: tags,
		Summary: "Explain where an instance is, or why it is not placed",
		Description: "In every state: what happens next and when, and what can be done. For one that is queued, " +
			"what every host is to it, worked out from what hosts said last: they say so within seconds of a change.",
	}, s.explainInstance)
	route(s, api, huma.Operation{
		OperationID: "explain-boot", Method: http.MethodGet, Path: "/v1/explain", Tags: tags,
		Summary: "Say what would become of a boot, without booting",
		Description: "Whether the quota allows it, what waits before it, and what every host is to it now. " +
			"Nothing is reserved: what is true now may not be when it is booted.",
	}, s.explainBoot)
}

type explainOutput struct{ Body rest.Explanation }

func (s *Server) explainInstance(ctx context.Context, in *InstanceInput) (*explainOutput, error) {
	_, k, err := s.named(ctx, in)
	if err != nil {
		return nil, err
	}
	return &explainOutput{Body: s.presenter(ctx).explain(k)}, nil
}

// explain explains one instance as the caller may see it.
func (s *presenter) explain(k entry) rest.Explanation {
	at, i := k.key(), k.instance
	f := explain.Facts{Now: s.now.log, Instance: i, Name: s.host, Amounts: s.names, Sums: s.seesAmounts(*k.boot())}
	out := rest.Explanation{
		ID: at.id, Project: at.project, Name: k.boot().Name, State: rest.State(s.state(k).String()),
		Next: []rest.NextEvent{}, YouCan: []string{},
	}
	if i == nil {
		f.AcceptedAt, out.Queue = k.request.At, rest.FromRequest(k.request).Queue
	} else {
		if why := s.ofSet(i.Project, i.Reason); why != i.Reason {
			shown := *i
			shown.Reason, f.Instance = why, &shown
		}
		out.Queue, out.Failures = i.Queue, s.situate(&f, &out).Failures
	}
	told := explain.Tell(f)
	out.Summary, out.YouCan = told.Summary, append(out.YouCan, told.Asker...)
	for _, e := range told.Next {
		out.Next = append(out.Next, rest.NextEvent{At: e.At.UTC(), What: e.What})
	}
	if s.names {
		out.OperatorsCan = told.Operators
	}
	return out
}

// situate adds where the instance is, and answers it as the caller may see it.
func (s *presenter) situate(f *explain.Facts, out *rest.Explanation) rest.Instance {
	i := f.Instance
	plain := rest.FromInstance(i)
	named := hostsIn(plain)
	f.Text = func(text string) string { return s.text(text, named...) }
	f.Silent = i.Host != "" && s.isSilent(i.Host)
	f.Wanted = s.wanted(i)
	if !f.Before { // what would become of a boot is asked about all hosts
		f.Placeholder = s.placeholderOf(i)
	}
	if f.Placeholder != nil && i.State == compute.StateQueued {
		return s.hideHosts(plain) // what other hosts are to it counts for nothing
	}
	if i.State == compute.StateQueued {
		var oldest time.Duration
		f.Hosts, oldest = s.standings(f.Wanted)
		f.Group = s.group(i)
		if i.IsPlaceholder() {
			f.Older = s.olderAgents()
		}
		hosts := s.fromAnswer(f.Hosts, oldest)
		if !s.seesAmounts(i.Boot) {
			hosts.Room, hosts.Empty, hosts.Short = min(hosts.Room, 1), min(hosts.Empty, 1), []rest.Shortage{}
		}
		out.Hosts = &hosts
		q := s.views.queues.get(i.Queue)
		f.Closed = q != nil && q.State == compute.QueueClosed
		if whole := s.whole(i); whole != nil {
			f.Whole = whole.Resources
		}
		f.Unmade = q == nil && i.Boot.Priority() != compute.PriorityNormal
		f.Higher = s.higher(i.Boot)
		if i.Boot.Host == "" {
			var since time.Time
			f.Position, f.Depth, since = s.views.instances.position(i)
			f.Own = s.views.instances.ownBefore(i)
			out.Place = &rest.Place{Position: f.Position, Depth: f.Depth, Oldest: since.UTC()}
		}
	}
	if last, ok := s.views.hosts.get(i.Boot.Host); ok {
		h := last.explained(s.now)
		f.On = &h
	}
	return s.hideHosts(plain)
}

// higher is how many wait in the tiers of higher classes of a boot's queue.
func (s *presenter) higher(b compute.Boot) (n uint64) {
	for _, p := range compute.Priorities() { // the highest first
		if p == b.Priority() {
			break
		}
		n += uint64(s.views.instances.inLine(compute.TierName(b.BaseQueue(), p)))
	}
	return n
}

// seesAmounts says whether the caller may see how much there is for a boot. Where the boot names hosts, that tells what
// they have free, by itself or beside what there is without naming them: so what other projects have there.
func (s *presenter) seesAmounts(b compute.Boot) bool {
	return s.names || b.Host == "" && len(b.Avoid) == 0 && b.Group() == ""
}

// standings judges every host for what is wanted, and says how old the oldest word is that counts.
func (s *presenter) standings(w explain.Wanted) (explain.Answer, time.Duration) {
	hosts, oldest := s.hosts()
	return explain.Hosts(w, hosts), oldest
}

// hosts are all hosts as one request sees them, and how old the oldest word is that counts.
func (s *presenter) hosts() ([]explain.Host, time.Duration) {
	if s.known == nil {
		s.known, s.oldest = s.views.hosts.known(s.now)
	}
	return s.known, s.oldest
}

// wanted is the machine that an instance asks for.
func (s *presenter) wanted(i *compute.Instance) explain.Wanted {
	w := explain.WantedBy(i)
	w.Group = s.group(i)
	w.Key, _ = sealed.KeyOf(i.Boot.Sealed)
	if q := s.whole(i); q != nil { // only a host with room for a machine of that queue looks at it
		w.Queue, w.Resources, w.Required, w.Forbidden = q.Name, q.Resources, q.Required, q.Forbidden
	}
	return w
}

// whole is the queue in which the set of an instance is offered whole; nil: it is not.
func (s *presenter) whole(i *compute.Instance) *compute.Queue {
	if q := i.Whole(); q != "" {
		return s.views.queues.get(q)
	}
	return nil
}

// counts is how many hosts are what to an instance that is queued. Those that wait in one queue mostly want the same
// of a host, and a list may have a thousand of them: what differs between them, the hosts that each avoids, is put
// right. They are not known where all that differs in one answer would take more work than one may.
func (s *presenter) counts(i *compute.Instance) (out explain.Counts, known bool) {
	w := s.wanted(i)
	avoid := slices.Compact(slices.Sorted(slices.Values(w.Avoid)))
	w.Avoid, w.Failed, w.Image = nil, nil, "" // of which lists say nothing
	same := fmt.Sprint(w.Queue, w.Resources, w.Required, w.Forbidden, w.Key)
	if w.Group != nil {
		same += fmt.Sprint(w.Group.Rule, w.Group.Same, w.Group.Value)
	}
	if out, known = s.counted[same]; !known {
		if (len(s.counted)+1)*s.views.hosts.len() > s.judged {
			return out, false
		}
		out = s.views.hosts.capacity(w, s.now).Counts
		s.counted[same] = out
	}
	for _, h := range avoid {
		last, ok := s.views.hosts.get(h)
		if !ok {
			continue
		}
		if n := &out[w.At(last.explained(s.now))]; *n > 0 { // it may have said something else since they were counted
			*n--
			out[explain.Avoided]++
		}
	}
	return out, true
}

func (s *presenter) fromAnswer(a explain.Answer, oldest time.Duration) rest.Standings {
	out := rest.Standings{
		Total: a.Total(), Now: a.Now(), Later: a.Later(), Never: a.Never(), Room: a.Room, Empty: a.Empty,
		By: map[string]uint32{}, Short: []rest.Shortage{}, Traits: []rest.UnfitTrait{},
		Oldest: oldest.Round(time.Millisecond).Seconds(),
	}
	for standing, n := range a.Counts {
		if n > 0 {
			out.By[explain.Standing(standing).String()] = n
		}
	}
	for _, x := range a.Short {
		out.Short = append(out.Short, rest.Shortage{Class: x.Class, Hosts: x.Hosts, Least: x.Least})
	}
	for _, x := range a.Traits {
		out.Traits = append(out.Traits, rest.UnfitTrait{Trait: x.Trait, Hosts: x.Hosts, Required: x.Required})
	}
	if !s.names {
		return out
	}
	for _, v := range a.Nearest {
		out.Nearest = append(out.Nearest, rest.HostStanding{
			Host: v.Host, Standing: v.Standing.String(), Short: v.Short, Traits: v.Traits, Reason: v.Reason,
			Room: v.Room,
		})
	}
	return out
}

type explainBootInput struct {
	Project compute.Project    `query:"project" doc:"Whose instance it would be; left out, \"default\"."`
	Flavor  compute.FlavorName `query:"flavor" required:"true" example:"m1.small"`
	With    []string           `query:"with,explode" doc:"A choice on a capability, as in gpu=a100; repeatable."`
	Host    compute.HostID     `query:"host" doc:"There and nowhere else."`
	Avoid   []compute.HostID   `query:"avoid,explode" doc:"Never there; repeatable."`
	Group   compute.GroupName  `query:"group" doc:"As a member of that group."`

	Priority string `query:"priority" enum:"low,normal,high" doc:"Of this class; left out, normal."`
}

type placementOutput struct{ Body rest.Placement }

// explainBoot judges a boot that nobody asked for yet.
func (s *Server) explainBoot(ctx context.Context, in *explainBootInput) (*placementOutput, error) {
	boot := rest.Boot{Project: orDefault(in.Project), Flavor: in.Flavor, Host: in.Host, Avoid: in.Avoid,
		Group: in.Group, Priority: in.Priority}
	for _, text := range in.With {
		axis, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, compute.Invalid("with", text, "give AXIS=VALUE, as in gpu=a100")
		}
		if boot.With == nil {
			boot.With = compute.Choices{}
		}
		boot.With[compute.AxisName(axis)] = compute.AxisValue(value)
	}
	k, err := s.readKind(ctx, "explain-boot", &bootInput{Body: boot}, 1, func(p compute.Project) error {
		return s.catchUp(ctx, p)
	})
	if err != nil {
		return nil, err
	}
	out, err := s.placements(ctx, []kind{k}, false)
	if err != nil {
		return nil, err
	}
	return &placementOutput{Body: out.Kinds[0]}, nil
}

// What becomes of boots that nobody asked for yet, and how much room there is, are judged anew for each answer: every
// host for every kind of machine, or every queue of a page. Any reader may ask, so both the work of one answer and the
// answers at once are bounded. Lists of instances say why each waits within the first bound.
const (
	mostJudged    = 4_000_000 // for one answer: 64 kinds on 10,000 hosts, one or two seconds of a processor
	judgingAtOnce = 2         // for callers of the cell, and as many for those of projects
)

// beginJudging returns once few others judge hosts. done lets the next one do so. Callers of the cell do not wait for
// those of projects, as with pages of topics.
func (s *Server) beginJudging(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.SyncTimeout)
	defer cancel()
	places := s.projectJudging
	if callerOf(ctx).ReadsAll() {
		places = s.judging
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, notJudged(ctx.Err())
	}
}

// notJudged says that an answer was not waited for, or not begun in time.
func notJudged(cause error) error {
	return &retryLater{after: refusedFor, why: &compute.Error{
		Op: "judge hosts", Kind: compute.KindUnavailable, Message: "this node has too many such questions to answer now",
		Remedy: "try again in a moment", Cause: cause,
	}}
}

// checkJudged refuses an answer that takes more work than one may. times is for each host.
func (s *Server) checkJudged(times, hosts int, field, value, remedy string) error {
	if times*hosts <= s.judged {
		return nil
	}
	e := compute.Invalid(field, value, remedy)
	e.Message = fmt.Sprintf("is too much for one answer in a cell of %d hosts", hosts)
	return e
}

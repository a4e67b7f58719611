// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeExplain(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "explain-instance", Method: http.MethodGet, Path: "/v1/instances/{id}/explain", Tags: []string{"instances"},
		Summary: "Explain where an instance is, or why it is not placed",
		Description: "In every state: what happens next and when, and what can be done. For one that is queued, what every " +
			"host is to it, worked out from what hosts said last: they say so within seconds of a change.",
	}, s.explainInstance)
}

type explainOutput struct{ Body rest.Explanation }

func (s *Server) explainInstance(ctx context.Context, in *InstanceInput) (*explainOutput, error) {
	at, err := in.instanceKey()
	if err != nil {
		return nil, err
	}
	k, err := s.find(ctx, at)
	if err != nil {
		return nil, err
	}
	return &explainOutput{Body: s.presenter(ctx).explain(k)}, nil
}

// explain explains one instance as the caller may see it.
func (s *presenter) explain(k entry) rest.Explanation {
	at, i := k.key(), k.instance
	f := explain.Facts{Now: s.now, Instance: i, FailAfter: compute.NoCapacityAfter}
	out := rest.Explanation{
		ID: at.id, Project: at.project, Name: k.boot().Name, State: rest.State(s.state(k).String()),
		Next: []rest.NextEvent{}, YouCan: []string{},
	}
	shown := s.instance(k, fields{})
	out.Queue, out.Failures = shown.Queue, shown.Failures
	var named []compute.HostID
	if i == nil {
		f.AcceptedAt = k.request.At
	} else {
		named = s.situate(&f, &out)
	}
	told := explain.Tell(f)
	out.Summary = s.text(told.Summary, named...)
	for _, e := range told.Next {
		out.Next = append(out.Next, rest.NextEvent{At: e.At.UTC(), What: s.text(e.What, named...)})
	}
	for _, text := range told.Asker {
		out.YouCan = append(out.YouCan, s.text(text, named...))
	}
	if s.names {
		out.OperatorsCan = told.Operators
	}
	return out
}

// situate adds where the instance is, and answers the hosts that what is said of it may name.
func (s *presenter) situate(f *explain.Facts, out *rest.Explanation) (named []compute.HostID) {
	i := f.Instance
	named = append([]compute.HostID{i.Host, i.Boot.Host}, i.Boot.Avoid...)
	for _, failure := range i.Failures {
		named = append(named, failure.Host)
	}
	for _, r := range []*compute.Reason{i.Reason, i.Stopped} {
		if r != nil {
			named = append(named, r.Host)
		}
	}
	on := i.Host
	if i.State == compute.StateQueued {
		on = i.Boot.Host
		var oldest time.Duration
		f.Hosts, oldest = s.standings(i)
		hosts := s.fromAnswer(f.Hosts, oldest)
		out.Hosts = &hosts
		q := s.views.queues.get(i.Queue)
		f.Closed = q != nil && q.State == compute.QueueClosed
		if i.Boot.Host == "" {
			var since time.Time
			f.Position, f.Depth, since = s.views.instances.position(i)
			out.Place = &rest.Place{Position: f.Position, Depth: f.Depth, Oldest: since.UTC()}
		}
	}
	if last, ok := s.views.hosts.get(on); ok {
		h := last.explained(s.now)
		f.On = &h
	}
	return named
}

// standings judges every host for an instance that is queued, and says how old the oldest word is that counts.
func (s *presenter) standings(i *compute.Instance) (explain.Answer, time.Duration) {
	hosts, oldest := s.views.hosts.known(s.now)
	return explain.Hosts(wantedBy(i), hosts), oldest
}

// wantedBy is the machine that an instance asks for.
func wantedBy(i *compute.Instance) explain.Wanted {
	w := explain.WantedBy(i)
	w.Key, _ = sealed.KeyOf(i.Boot.Sealed)
	return w
}

// counts is how many hosts are what to an instance that is queued. Those that wait in one queue mostly want the same of a
// host, and a list may have a thousand of them: what differs between them, the hosts that each avoids, is put right.
func (s *presenter) counts(i *compute.Instance) explain.Counts {
	w := wantedBy(i)
	avoid := w.Avoid
	w.Avoid, w.Failed = nil, nil
	same := string(i.Queue) + " " + w.Resources.String() + " " + string(w.Key)
	out, known := s.counted[same]
	if !known {
		out = s.views.hosts.count(w, s.now)
		s.counted[same] = out
	}
	for _, h := range avoid {
		if last, ok := s.views.hosts.get(h); ok {
			out[w.At(last.explained(s.now))]--
			out[explain.Avoided]++
		}
	}
	return out
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
			Host: v.Host, Standing: v.Standing.String(), Short: v.Short, Traits: v.Traits, Reason: v.Reason, Room: v.Room,
		})
	}
	return out
}

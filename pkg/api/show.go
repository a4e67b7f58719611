// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// presenter turns what is known into what is shown, for the time of one request.
type presenter struct {
	views  views
	now    time.Time
	names  bool                    // hosts are shown by their names
	silent map[compute.HostID]bool // as far as was asked
}

// presenter shows to the caller what it may see.
func (s *Server) presenter(ctx context.Context) *presenter {
	return &presenter{
		views: s.views, now: time.Now(), names: callerOf(ctx).ReadsAll(), silent: map[compute.HostID]bool{},
	}
}

// state is what is shown: the record's own, unless nobody knows.
func (s *presenter) state(k entry) compute.State {
	switch {
	case k.instance == nil:
		return compute.StateAccepted
	case k.instance.State.OnHost() && k.instance.Host != "" && s.isSilent(k.instance.Host):
		return compute.StateUnknown
	}
	return k.instance.State
}

// instance shows one, as far as its fields are wanted: why something waits is
// the only one that takes work.
func (s *presenter) instance(k entry, only fields) rest.Instance {
	if k.instance == nil {
		return s.hideHosts(rest.FromRequest(k.request))
	}
	out := rest.FromInstance(k.instance)
	out.State = rest.State(s.state(k).String())
	if k.instance.State == compute.StateQueued && only.has("waiting") {
		out.Waiting = rest.FromReason(s.waiting(k.instance))
	}
	return s.hideHosts(out)
}

// waiting says why an instance is still queued, as far as is known.
func (s *presenter) waiting(i *compute.Instance) *compute.Reason {
	if h := i.Boot.Host; h != "" {
		return s.waitingForHost(h)
	}
	about, ok := s.views.advice.get(i.Queue)
	r := whyWaiting(about.Hosts, ok)
	r.Position, r.Depth, r.Oldest = s.views.instances.position(i)
	return r
}

// whyWaiting judges by what became of the hosts; without advice nothing is
// known but that it waits.
func whyWaiting(hosts compute.HostCounts, advised bool) *compute.Reason {
	switch {
	case !advised || hosts.Eligible > 0:
		return &compute.Reason{Code: compute.WaitingForCapacity, Hosts: hosts}
	case hosts.NeverFits > 0 && hosts.NeverFits == hosts.Total():
		return &compute.Reason{Code: compute.NeverFits, Hosts: hosts}
	}
	return &compute.Reason{Code: compute.NoEligibleHost, Hosts: hosts}
}

// waitingForHost is why pinned work waits. It is in no queue's line.
func (s *presenter) waitingForHost(h compute.HostID) *compute.Reason {
	last, ok := s.views.hosts.get(h)
	switch {
	case s.isSilent(h):
		return &compute.Reason{Code: compute.PinnedHostUnavailable, Host: h, Detail: "it is silent"}
	case ok && last.beacon.State != compute.HostEnabled:
		return &compute.Reason{
			Code: compute.PinnedHostUnavailable, Host: h, Detail: "it is " + last.beacon.State.String(),
		}
	}
	return &compute.Reason{Code: compute.WaitingForCapacity, Host: h}
}

// isSilent asks once for each host: a list may show a thousand of one.
func (s *presenter) isSilent(h compute.HostID) bool {
	silent, asked := s.silent[h]
	if !asked {
		silent = s.views.hosts.silent(h, s.now)
		s.silent[h] = silent
	}
	return silent
}

// silentHosts are those that have, or had, an instance.
func (s *presenter) silentHosts() []compute.HostID {
	return slices.DeleteFunc(s.views.instances.hosts(), func(h compute.HostID) bool { return !s.isSilent(h) })
}

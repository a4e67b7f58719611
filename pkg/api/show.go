// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// presenter turns what is known into what is shown, for the time of one request.
type presenter struct {
	views  views
	now    moment
	names  bool                    // hosts are shown by their names
	silent map[compute.HostID]bool // as far as was asked

	catalog Catalog
	groups  map[compute.GroupKey]*knownGroup // nil: there is no such group
	counted map[string]explain.Counts        // likewise: of hosts, by what is wanted of them
	judged  int                              // how often a host may be judged for them
	known   []explain.Host                   // nil: nobody has asked
	oldest  time.Duration                    // of what they said

	older      []compute.HostID // whose agents know no reservations
	askedOlder bool
}

// presenter shows to the caller what it may see.
func (s *Server) presenter(ctx context.Context) *presenter {
	return &presenter{
		views: s.views, now: s.moment(), names: callerOf(ctx).ReadsAll(), silent: map[compute.HostID]bool{},
		counted: map[string]explain.Counts{}, judged: s.judged,
		catalog: s.config.Catalog, groups: map[compute.GroupKey]*knownGroup{},
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
	if p := s.placeholderOf(i); p != nil {
		return &compute.Reason{Code: compute.ReservationWaits, Detail: compute.WaitsIn(p, s.now.log)}
	}
	if r := s.waitingToHold(i); r != nil {
		return r
	}
	if i.Boot.Host != "" {
		return s.waitingForHost(i)
	}
	counts, known := s.counts(i)
	r := whyWaiting(counts.Hosts(), known && s.views.caughtUp[viewHosts].Load())
	if g := s.group(i); g != nil && counts[explain.KeptOut] > 0 && r.Code == compute.NoEligibleHost {
		r.Code, r.Detail = compute.GroupRule, g.Says()
	}
	r.Position, r.Depth, r.Oldest = s.views.instances.position(i)
	if i.Waits() && r.Code == compute.WaitingForCapacity {
		r.Code, r.Detail = compute.SetWaits, i.Boot.Set().Says()
	}
	return r
}

// whyWaiting judges by what hosts are to it; where that is not known nothing is but that it waits.
func whyWaiting(hosts compute.HostCounts, known bool) *compute.Reason {
	switch {
	case !known || hosts.Eligible > 0:
		return &compute.Reason{Code: compute.WaitingForCapacity, Hosts: hosts}
	case hosts.NeverFits > 0 && hosts.NeverFits == hosts.Total():
		return &compute.Reason{Code: compute.NeverFits, Hosts: hosts}
	}
	return &compute.Reason{Code: compute.NoEligibleHost, Hosts: hosts}
}

// waitingForHost is why pinned work waits. It is in no queue's line.
func (s *presenter) waitingForHost(i *compute.Instance) *compute.Reason {
	h := i.Boot.Host
	last, ok := s.views.hosts.get(h)
	if !ok && s.isSilent(h) {
		return &compute.Reason{Code: compute.PinnedHostUnavailable, Host: h, Detail: "it is silent"}
	}
	if ok {
		v := explain.Judge(s.wanted(i), last.explained(s.now))
		if v.Standing == explain.KeptOut {
			return &compute.Reason{Code: compute.GroupRule, Host: h, Detail: s.group(i).Says()}
		}
		if !v.Standing.Now() && v.Standing != explain.Full {
			return &compute.Reason{Code: compute.PinnedHostUnavailable, Host: h, Detail: "it " + v.Says()}
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

// Callers without a role of the cell see hosts as opaque ids: whether two machines are on one host is their
// business, what it is called and how the racks are laid out is not. The id is a hash of the journal's id, which
// is random and which only the host and the cell's own processes know: nobody can try names against it, and
// every node gives the same.

// opaqueHost is what a host is called where its name is nobody's business.
func opaqueHost(b *compute.Beacon) compute.HostID {
	if b.Journal == "" {
		return unknownHost
	}
	sum := sha256.Sum256([]byte("opaque host of journal " + string(b.Journal)))
	return compute.HostID("h-" + hex.EncodeToString(sum[:8]))
}

// unknownHost stands for one whose beacon is not there.
const unknownHost compute.HostID = "unknown-host"

// realHost finds the host that the caller means.
func (s *Server) realHost(ctx context.Context, h compute.HostID) (compute.HostID, bool) {
	if callerOf(ctx).ReadsAll() {
		return h, true
	}
	if h == unknownHost {
		return "", false
	}
	return s.views.hosts.named(h)
}

// checkForeign refuses what would let a caller find out about other projects, and puts the names of hosts for the ids
// that it gave. Those that stand for none are gone, which is no reason to refuse what was accepted with them: a host
// that has gone since, or has another journal, has that id no more.
//
// Ids of version 5 are what keys of any project stand for, and can be computed: booting under one says whether
// that key was used, or takes it before its project does. So they are taken with their key alone.
func (s *Server) checkForeign(ctx context.Context, in *bootInput, req *compute.Request) error {
	if callerOf(ctx).ReadsAll() {
		return nil
	}
	if id, err := uuid.Parse(string(in.Body.ID)); err == nil && id.Version() == 5 && len(in.keys) == 0 {
		return compute.Invalid("id", string(in.Body.ID),
			"an id of version 5 is taken with the "+keyHeader+" that it stands for only: give that, or a random id")
	}
	boot := req.Boot
	boot.Avoid = slices.Clone(boot.Avoid)
	given := []*compute.HostID{}
	if boot.Host != "" {
		given = append(given, &boot.Host)
	}
	for i := range boot.Avoid {
		given = append(given, &boot.Avoid[i])
	}
	for _, h := range given {
		if name, ok := s.realHost(ctx, *h); ok {
			*h = name
		} else {
			in.gone = append(in.gone, *h)
		}
	}
	return nil
}

// host is what the caller sees of a host's name.
func (s *presenter) host(h compute.HostID) compute.HostID {
	if s.names || h == "" {
		return h
	}
	if last, ok := s.views.hosts.get(h); ok {
		return last.opaque
	}
	return unknownHost
}

// text is a text without the names of some hosts.
func (s *presenter) text(text string, hosts ...compute.HostID) string {
	if s.names {
		return text
	}
	for _, h := range hosts {
		if h != "" {
			text = replaceWord(text, string(h), string(s.host(h)))
		}
	}
	return text
}

// replaceWord replaces a name where it stands by itself: a host that is called "a" is not in "failed".
func replaceWord(text, word, by string) string {
	const inNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	var out strings.Builder
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			out.WriteString(text[at:])
			return out.String()
		}
		from, to := at+i, at+i+len(word)
		inside := from > 0 && strings.IndexByte(inNames, text[from-1]) >= 0 ||
			to < len(text) && strings.IndexByte(inNames, text[to]) >= 0
		out.WriteString(text[at:from])
		if inside {
			out.WriteString(word)
		} else {
			out.WriteString(by)
		}
		at = to
	}
}

func reasonsIn(i rest.Instance) []*rest.Reason { return []*rest.Reason{i.Reason, i.Waiting, i.Stopped} }

// hostsIn are the hosts that an instance names: any of its texts may be about any of them.
func hostsIn(i rest.Instance) []compute.HostID {
	named := append([]compute.HostID{i.Host, i.PinnedTo}, i.Avoid...)
	for _, f := range i.Failures {
		named = append(named, f.Host)
	}
	if i.Notice != nil {
		named = append(named, i.Notice.Host)
	}
	for _, r := range reasonsIn(i) {
		if r != nil {
			named = append(named, r.Host)
		}
	}
	return named
}

// hideHosts is an instance as the caller may see it. What it changes is its own: rest.FromInstance shares
// only the hosts to avoid with what is kept.
func (s *presenter) hideHosts(i rest.Instance) rest.Instance {
	if s.names {
		return i
	}
	named := hostsIn(i)
	for _, r := range reasonsIn(i) {
		if r != nil {
			s.hideInSet(i.Project, r)
			r.Message, r.Detail, r.Host = s.text(r.Message, named...), s.text(r.Detail, named...), s.host(r.Host)
		}
	}
	for n := range i.Failures {
		f := &i.Failures[n]
		f.Message, f.Host = s.text(f.Message, named...), s.host(f.Host)
	}
	if i.Answer != nil {
		i.Answer.Failed = s.text(i.Answer.Failed, named...)
	}
	if i.Notice != nil {
		i.Notice.Host = s.host(i.Notice.Host)
	}
	i.Avoid = slices.Clone(i.Avoid)
	for n := range i.Avoid {
		i.Avoid[n] = s.host(i.Avoid[n])
	}
	i.PinnedTo, i.Host = s.host(i.PinnedTo), s.host(i.Host)
	return i
}

// ofSet is a reason as the caller may see it. That of SetFailed has in it why another of the set has ended, so names of
// hosts that only the other names. Where that one is not known as it ended, its name alone is told.
func (s *presenter) ofSet(p compute.Project, why *compute.Reason) *compute.Reason {
	if s.names || why == nil || why.Code != compute.SetFailed {
		return why
	}
	of, others := strings.CutPrefix(why.Detail, "instance ")
	id, _, says := strings.Cut(of, ": ")
	if !others || !says {
		return why
	}
	out := *why
	k, ok := s.views.instances.get(instanceKey{p, compute.InstanceID(id)})
	if ok && k.instance != nil && k.instance.State.Ended() {
		out.Detail = s.text(why.Detail, hostsIn(rest.FromInstance(k.instance))...)
	} else {
		out.Detail = "instance " + id
	}
	return &out
}

// hideInSet does the same with a reason that is shown.
func (s *presenter) hideInSet(p compute.Project, r *rest.Reason) {
	if !s.names && r.Code == compute.SetFailed {
		*r = *rest.FromReason(s.ofSet(p, r.Compute()))
	}
}

// refusal is a refusal as the caller may see it.
func (s *presenter) refusal(err error) error {
	e, ok := err.(*compute.Error)
	if s.names || !ok || e.Reason == nil || e.Reason.Host == "" {
		return err
	}
	hidden, reason := *e, *e.Reason
	reason.Detail = s.text(reason.Detail, reason.Host)
	hidden.Message = s.text(hidden.Message, reason.Host)
	reason.Host = s.host(reason.Host)
	hidden.Reason = &reason
	return &hidden
}

// notSent is why a record was not written to the stream of a host, whose name has the host's, as the caller may see it.
func (s *presenter) notSent(err error, h compute.HostID) error {
	var e *compute.Error
	if s.names || !errors.As(err, &e) {
		return err
	}
	hidden := *e
	if hidden.Value, hidden.Message = s.text(e.Value, h), s.text(e.Message, h); e.Cause != nil {
		hidden.Cause = err // for the log, which names all
	}
	if later, ok := err.(*retryLater); ok {
		return &retryLater{why: &hidden, status: later.status, after: later.after}
	}
	return &hidden
}

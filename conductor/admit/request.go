// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/berth-project/berth/conductor/quota"
	"github.com/berth-project/berth/pkg/compute"
)

// request hears what somebody wants.
func (s *step) request(r compute.Request) {
	if r.Op == compute.OpBoot && r.Boot != nil && r.Project.Check() == nil && r.Instance.Check() == nil {
		s.boot(r)
		return
	}
	if err := r.Check(); err != nil {
		s.reject(err.Error())
		return
	}
	switch r.Op {
	case compute.OpBootSet:
		s.bootSet(r)
	case compute.OpReserve:
		s.reserve(r)
	case compute.OpFence, compute.OpForget:
		s.hostDead(r.Host, r.Op, r.Fence)
	case compute.OpConfirm:
		if h := s.hosts[r.Host]; h != nil {
			s.confirmAll(h, false)
		}
	case compute.OpDelete:
		s.delete(r)
	case compute.OpChange:
		s.amend(r)
	default:
		s.power(r)
	}
}

// boot admits a request or writes down why not. A repeated one changes nothing,
// whatever became of the first; so does one that lands behind its own delete.
func (s *step) boot(r compute.Request) {
	if e := s.instances[r.Instance]; e != nil {
		if e.inst.Project != r.Project {
			s.rejectOwner(r)
		}
		return
	}
	inst := &compute.Instance{ID: r.Instance, Project: r.Project, AcceptedAt: s.accepted(r), Trace: r.Trace}
	reason := s.admit(inst, *r.Boot)
	switch {
	case reason != nil:
	case inst.Boot.Reservation() != "":
		reason = s.take(inst) // which counts in the quota until it is taken
	default:
		reason = s.withinQuota(inst.Project, quota.Ask(inst.Boot.Priority(), inst.Resources))
	}
	if reason != nil {
		s.refused(inst, reason)
	} else {
		s.enqueue(inst)
	}
	s.create(inst)
}

// admit fills in the record; the reason it answers is why it is refused, whatever the quota. Quota
// is reserved by the record itself: the next request is counted after it.
func (s *step) admit(inst *compute.Instance, b compute.Boot) *compute.Reason {
	if err := b.Check(); err != nil {
		// What was wrong is not kept: it may be of any size.
		inst.Boot.Name = strings.ToValidUTF8(b.Name[:min(len(b.Name), compute.MaxNameLength)], "")
		return &compute.Reason{Code: compute.Malformed, Detail: err.Error()}
	}
	chosen, reason := s.spreadBoot(inst.Project, b)
	if reason == nil {
		b = chosen
	}
	inst.Boot = b.WithDefaults()
	if q := b.Queue(); len(q) <= compute.MaxQueueName { // of a longer one no record could be read
		inst.Queue = q
	}
	if reason != nil {
		return reason
	}
	q, reason := s.view.Resolve(b)
	if reason != nil {
		return reason
	}
	inst.Resources, inst.Required, inst.Forbidden = q.Resources, q.Required, q.Forbidden
	return s.view.admitToGroup(inst.Project, &inst.Boot)
}

// enqueue makes an admitted record wait for a host.
func (s *step) enqueue(inst *compute.Instance) {
	inst.State, inst.Attempt = compute.StateQueued, 1
	s.ensureGroup(inst, s.view)
	inst.QueuedAt, inst.Deadline = s.at(), inst.AcceptedAt.Add(inst.Boot.Deadline)
	if p := s.placeholderOf(inst); p != nil && fromOf(p).After(inst.AcceptedAt) {
		inst.Deadline = fromOf(p).Add(inst.Boot.Deadline)
	}
}

// withinQuota is why a project may not have so much more; nil if it may.
func (s *step) withinQuota(p compute.Project, more quota.Asked) *compute.Reason {
	return s.usage.Check(p, more, s.view.limits(p))
}

// refused makes the record one of a boot that is refused.
func (s *step) refused(inst *compute.Instance, why *compute.Reason) {
	inst.State, inst.Reason, inst.EndedAt = compute.StateError, s.asFarAsKnown(why), s.at()
	inst.Boot.DropUserData()
}

// asFarAsKnown says of what the catalog does not name that it may do so, where it cannot be read.
func (s *step) asFarAsKnown(why *compute.Reason) *compute.Reason {
	named := why.Code != compute.NoSuchFlavor && why.Code != compute.NoSuchCapability && why.Code != compute.NoSuchGroup
	if named || !s.view.CatalogUnread {
		return why
	}
	doubted := *why
	doubted.Detail += ", as far as this conductor knows: it cannot read the catalog now"
	return &doubted
}

// accepted is when the wait began: never later than now, so that a wrong clock
// elsewhere cannot stretch a deadline.
func (s *step) accepted(r compute.Request) time.Time {
	if r.At.IsZero() || r.At.After(s.now) {
		return s.at()
	}
	return r.At.Round(0).UTC()
}

// delete ends what is not on a host at once, and tells the host otherwise. An
// unknown id is written down as deleted, so that its boot, should it land later,
// changes nothing.
func (s *step) delete(r compute.Request) {
	e := s.instances[r.Instance]
	switch {
	case e == nil:
		s.create(&compute.Instance{
			ID: r.Instance, Project: r.Project, State: compute.StateDeleted, Delete: true, Trace: r.Trace,
			Reason: cancelled(), AcceptedAt: s.accepted(r), EndedAt: s.at(),
		})
	case e.inst.Project != r.Project:
		s.rejectOwner(r)
	case e.inst.State == compute.StateQueued:
		s.deleted(e, cancelled())
	case e.inst.State == compute.StateError:
		s.deleted(e, e.inst.Reason)
	case running(e.inst):
		s.destroy(e, e.inst.Reason)
	}
}

// destroy has the host of a machine destroy it.
func (s *step) destroy(e *entry, why *compute.Reason) {
	s.change(e, func(inst *compute.Instance) {
		inst.State, inst.Delete, inst.Reason = compute.StateDeleting, true, why
		inst.Command, inst.Confirm = nil, false
		inst.EndNotice(s.at())
	})
}

func cancelled() *compute.Reason { return &compute.Reason{Code: compute.Cancelled} }

// deleted keeps the record, but not the user's data, as end does.
func (s *step) deleted(e *entry, reason *compute.Reason) {
	s.change(e, func(inst *compute.Instance) {
		inst.State, inst.Delete, inst.Reason, inst.EndedAt = compute.StateDeleted, true, reason, s.at()
		inst.PublishAt = time.Time{}
		inst.EndNotice(s.at())
		inst.Boot.DropUserData()
		offerIn(inst, "")
		clearPower(inst)
	})
}

// power passes a command on to the host of an active machine. A newer command
// takes the place of an unanswered older one; agents go by the version.
func (s *step) power(r compute.Request) {
	e := s.find(r.Project, r.Instance)
	if e == nil || e.inst.State != compute.StateActive {
		state := "unknown in this project"
		if e != nil {
			state = e.inst.State.String()
		}
		s.reject(fmt.Sprintf("%s of %s, which is %s: only an active instance has a power state",
			r.Op, r.Instance, state))
		return
	}
	if n := e.inst.Notice(); n != nil && (n.Going || r.Op != compute.OpStop) {
		s.reject(fmt.Sprintf("%s of %s, which goes: %s", r.Op, r.Instance, n.Reason(e.inst.Attempt).Detail))
		return
	}
	if op, was := e.inst.Commanded(r.Command); was {
		if op != r.Op {
			s.reject(fmt.Sprintf(
				"%s of %s with command %s, which was given to %s: give each command an id of its own", r.Op,
				r.Instance, r.Command, op,
			))
		}
		return
	}
	if e.inst.IsPlaceholder() {
		s.rejectPlaceholder(r, e.inst)
		return
	}
	s.change(e, func(inst *compute.Instance) {
		inst.Command = &compute.PowerCommand{
			Op: r.Op, Command: r.Command, Hard: r.Hard, Version: inst.Version, At: s.at(), Journal: s.rebootedBy(inst),
		}
		if r.Command == "" {
			inst.Command.Command = ownCommand(inst)
		}
	})
}

// rebootedBy is the journal whose agent is to do what is asked for now: the last that was heard for the host, for what
// that one's predecessor had done was asked for before. Of two that spoke at one time it is the one that has the
// machine.
func (s *step) rebootedBy(inst *compute.Instance) compute.JournalID {
	h := s.hosts[inst.Host]
	if inst.Journal == "" || h == nil || h.journal == "" {
		return inst.Journal
	}
	if _, both := h.together[together{inst.Journal, h.journal}]; both {
		return inst.Journal
	}
	return h.journal
}

// amend gives an instance another name or other metadata. Nothing follows from that for any host: what waits in a queue
// or runs keeps what it was given, and the next attempt has the new.
func (s *step) amend(r compute.Request) {
	e := s.instances[r.Instance]
	switch {
	case e == nil:
		s.reject(fmt.Sprintf("change of %s, which is unknown in this project: boot it first", r.Instance))
		return
	case e.inst.Project != r.Project:
		s.rejectOwner(r)
		return
	case e.inst.State == compute.StateDeleted:
		s.reject(fmt.Sprintf("change of %s, which is deleted: only what is there has a name and metadata", r.Instance))
		return
	case e.inst.IsPlaceholder():
		s.rejectPlaceholder(r, e.inst)
		return
	}
	was := &e.inst.Boot
	boot, err := r.Change.Apply(*was)
	switch {
	case err != nil:
		s.reject(fmt.Sprintf("change of %s: %s", r.Instance, err))
	case boot.Name != was.Name || !maps.Equal(boot.Metadata, was.Metadata):
		s.note(e, func(inst *compute.Instance) {
			if inst.Boot = boot; inst.BootedAs == 0 {
				inst.BootedAs = was.Fingerprint()
			}
		})
	}
}

func (s *step) rejectPlaceholder(r compute.Request, inst *compute.Instance) {
	s.reject(fmt.Sprintf("%s of %s, which is a placeholder of reservation %s: it has no machine; boot one into it",
		r.Op, r.Instance, inst.Boot.Placeholder().Of))
}

func (s *step) rejectOwner(r compute.Request) {
	s.reject(fmt.Sprintf("%s of %s: this id belongs to another project", r.Op, r.Instance))
}

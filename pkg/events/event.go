// SPDX-License-Identifier: Apache-2.0

package events

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Place is where a record is in the log.
type Place struct {
	Partition int32
	Offset    int64
	Time      time.Time // of the log
}

// Event is one change of an instance. It is never changed once it is made. It has copies of what is small, so that
// it keeps no older record, with user data in it, in memory.
type Event struct {
	Place
	Project     compute.Project
	ID          compute.InstanceID
	Name        string
	Labels      map[string]string // all that it has after the change
	Version     compute.Version
	Placeholder bool // it has no machine, and holds room for one of a reservation
	Removed     bool // the record is gone, long after the instance ended; the rest is what it was before, if that is known

	Before, After        compute.State // Before is StateNone of a new instance, and where it is not known
	HostBefore, Host     compute.HostID
	PowerBefore, Power   compute.PowerState
	Attempt              compute.Attempt
	DeleteBefore, Delete bool
	Reason               *compute.Reason       // why it ended, an attempt did, or it does not run: where that is news
	Command              *compute.PowerCommand // where it is news
	Answer               *compute.PowerAnswer  // where it is news
	Notice               *compute.Notice       // that its place is taken, or was, where it is news
	Then                 compute.Afterwards    // with Notice: what becomes of it
	Renamed              bool                  // its name has changed
	NameBefore           string                // where it has
	Relabelled           bool                  // its labels have changed
	LabelsBefore         map[string]string     // where they have
	Named                []compute.HostID      // all hosts that texts of the event may be about
}

// Entry is what one record says, for a Log.
type Entry struct {
	Place
	Event   *Event // nil: nothing can be told of it
	Missing bool   // records between this one and the last that was known of its instance were never read
}

// size is about how many bytes of memory it takes, with its texts: of them a failure may have thousands.
func (e *Event) size() int {
	const fields, each = 512, 32
	n := fields + len(e.Name) + len(e.NameBefore) + each*len(e.Named)
	if e.Relabelled || e.Before == compute.StateNone { // others share theirs with the event before
		for _, labels := range []map[string]string{e.Labels, e.LabelsBefore} {
			for name, value := range labels {
				n += each + len(name) + len(value)
			}
		}
	}
	if e.Reason != nil {
		n += len(e.Reason.Detail)
	}
	if e.Answer != nil {
		n += len(e.Answer.Failed)
	}
	return n
}

// Between is the entry of a record that changes an instance from one state to another. before is nil where nothing
// was known; after is nil for a tombstone, whose instance is named by project and id.
//
// Each record of an instance has a version of one more than the record before it. So a record that compaction removed
// before this node read it shows at the next one.
func Between(p compute.Project, id compute.InstanceID, before, after *compute.Instance, at Place) Entry {
	e := &Event{Place: at, Project: p, ID: id}
	known := compute.Version(0)
	if before != nil {
		known = before.Version
		e.Before, e.HostBefore, e.PowerBefore, e.DeleteBefore = before.State, before.Host, before.Power, before.Delete
		e.Name, e.Labels, e.Placeholder = before.Boot.Name, before.Boot.Metadata, before.IsPlaceholder()
	}
	if after == nil {
		e.Removed, e.Version, e.After = true, known, e.Before
		return Entry{Place: at, Event: e, Missing: before == nil}
	}
	e.Name, e.Labels, e.Version, e.Attempt = after.Boot.Name, after.Boot.Metadata, after.Version, after.Attempt
	e.After, e.Host, e.Power, e.Delete = after.State, after.Host, after.Power, after.Delete
	e.Placeholder = after.IsPlaceholder()
	e.note(before, after)
	return Entry{Place: at, Event: e, Missing: after.Version != known+1}
}

// Present is an instance as it is, told as an event.
func Present(i *compute.Instance) *Event {
	e := Between(i.Project, i.ID, nil, i, Place{Time: i.ChangedAt}).Event
	e.Reason = i.Reason
	if e.Reason == nil {
		e.Reason = i.Stopped
	}
	e.nameHosts(i)
	return e
}

// note takes what is news of all that a record repeats.
func (e *Event) note(before, after *compute.Instance) {
	var was compute.Instance
	if before != nil {
		was = *before
		if e.Renamed = was.Boot.Name != after.Boot.Name; e.Renamed {
			e.NameBefore = was.Boot.Name
		}
		if e.Relabelled = !maps.Equal(was.Boot.Metadata, after.Boot.Metadata); e.Relabelled {
			e.LabelsBefore = was.Boot.Metadata
		}
	}
	switch {
	case after.Reason != nil && (!same(was.Reason, after.Reason) || after.State.Ended() && was.State != after.State):
		e.Reason = after.Reason
	case after.Stopped != nil && !same(was.Stopped, after.Stopped):
		e.Reason = after.Stopped
	}
	if after.Command != nil && !same(was.Command, after.Command) {
		e.Command = after.Command
	}
	if after.Answer != nil && !same(was.Answer, after.Answer) {
		e.Answer = after.Answer
	}
	if n := after.LastNotice(); n != nil && newNotice(was.LastNotice(), n) {
		e.Notice, e.Then = n, after.Boot.Preemptible().Then
	}
	if e.Reason != nil || e.Answer != nil && e.Answer.Failed != "" {
		e.nameHosts(after)
	}
}

// newNotice says whether a notice was given, or is over, and was not before.
func newNotice(was, n *compute.Notice) bool {
	return was == nil || !was.At.Equal(n.At) || !was.Over.Equal(n.Over)
}

// nameHosts notes the hosts that an instance names: a text of it may be about any of them.
func (e *Event) nameHosts(i *compute.Instance) {
	named := append([]compute.HostID{i.Host, i.Boot.Host, e.HostBefore}, i.Boot.Avoid...)
	for _, f := range i.Failures {
		named = append(named, f.Host)
	}
	for _, r := range []*compute.Reason{i.Reason, i.Stopped} {
		if r != nil {
			named = append(named, r.Host)
		}
	}
	slices.Sort(named)
	e.Named = slices.DeleteFunc(slices.Compact(named), func(h compute.HostID) bool { return h == "" })
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// Wanted says which events a listener hears. What is empty lets all pass; all that is set must apply.
type Wanted struct {
	Project  compute.Project
	Instance compute.InstanceID
	Host     compute.HostID // that has it after the change, or had it before
	States   []compute.State
	Reasons  []compute.ReasonCode
	Labels   compute.Selector // of what it has after the change, or had before
}

// Has says whether the Present of an instance passes, without making it.
func (f Wanted) Has(i *compute.Instance) bool {
	why := i.Reason
	if why == nil {
		why = i.Stopped
	}
	return f.Takes(&Event{
		Project: i.Project, ID: i.ID, Host: i.Host, After: i.State, Reason: why, Labels: i.Boot.Metadata,
		Placeholder: i.IsPlaceholder(),
	})
}

// Takes says whether an event passes. One of a placeholder does only where it is asked for by its id.
func (f Wanted) Takes(e *Event) bool {
	return (f.Project == "" || f.Project == e.Project) &&
		(f.Instance == e.ID || f.Instance == "" && !e.Placeholder) &&
		(f.Host == "" || f.Host == e.Host || f.Host == e.HostBefore) &&
		(len(f.States) == 0 || slices.Contains(f.States, e.After)) &&
		(f.Labels.Empty() || f.Labels.Selects(e.Labels) || e.Relabelled && f.Labels.Selects(e.LabelsBefore)) &&
		(len(f.Reasons) == 0 || e.Reason != nil && slices.Contains(f.Reasons, e.Reason.Code))
}

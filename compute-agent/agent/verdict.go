// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// arrival is work that came from a queue, with what its host knows at that moment.
type arrival struct {
	build     compute.Build
	delivery  int16 // how often the queue has handed it out, this time included
	host      compute.HostID
	traits    map[compute.Trait]bool // of the host
	here      *task.Task             // of the same instance; nil: none
	offers    bool                   // the host takes work
	mistrusts bool                   // the image has failed here lately
	late      bool                   // the deadline has passed, by the clock that the host goes by
	fits      bool                   // there is room
	slots     int                    // for builds, that are free
	members   uint32                 // of the work's group, that are known to be here
	adopted   bool                   // there are machines here of which the groups are not known
	groupOver bool                   // the group's rule was a preference, for a time that is over
	closed    string                 // why its user data cannot be opened here; empty: it can, or is not sealed
}

// verdict is what becomes of the record; 0: the work is taken.
func (a arrival) verdict() (how wire.Ack, why string) {
	if a.here != nil {
		if a.undecided() {
			return wire.AckRelease, "its claim is not answered yet"
		}
		return known(*a.here, a.build)
	}
	again := a.delivery >= fetch.ThirdDelivery // no other host seems to want it
	switch {
	case !a.offers:
		return wire.AckRelease, "this host does not offer any more"
	case slices.Contains(a.build.Avoid, a.host):
		return wire.AckRelease, "the request avoids this host"
	case a.passedOn():
		return wire.AckAccept, "every host that has seen it has as many of its group as may be"
	case a.fullOfGroup():
		return wire.AckRelease, "as many of its group are here as may be"
	case slices.Contains(a.build.Failed, a.host) && !again:
		return wire.AckRelease, "an earlier attempt failed here"
	case a.closed != "":
		return wire.AckRelease, a.closed
	case a.mistrusts && !again:
		return wire.AckRelease, "its image has failed here lately"
	case a.late && a.delivery > 1:
		return wire.AckAccept, "its deadline has passed"
	case a.late:
		// One host with a wrong clock must not eat a queue, where it has to go by that: two must say so.
		return wire.AckRelease, "its deadline seems to have passed"
	case !a.fits || !accepts(a.build, a.traits) || a.slots < 1:
		return wire.AckRelease, "it does not fit any more"
	}
	return 0, ""
}

// fullOfGroup says whether the work's group leaves it to hosts with fewer members. What the host knows itself is newer
// than what the work says.
func (a arrival) fullOfGroup() bool {
	g := a.build.Group
	return g != nil && g.Most > 0 && !a.groupOver &&
		(a.members >= g.Most || a.adopted && slices.Contains(g.Full, a.host))
}

// passedOn says whether work of a group has been left to others by so many hosts that its queue is about to drop it. It
// is taken out, and its conductor is told, which offers it again with what it knows of the group by then.
func (a arrival) passedOn() bool { return a.fullOfGroup() && a.delivery >= fetch.LastDelivery }

// undecided says whether this host has claimed the very attempt and has no answer yet. A conductor that denies a claim
// may publish the work again, and that may be here before the denial is: if it were taken out of the queue as known,
// nobody would have it. Of a set that came whole the rest is taken all the same.
func (a arrival) undecided() bool {
	t := a.here
	return t.Stage == task.Claiming && t.Project == a.build.Project && t.Attempt == a.build.Attempt
}

// never says whether work that is not taken cannot run here later either: the request avoids this host, its group has
// enough members here, its user data is sealed under a key that this process has not, or its flavor was another when it
// was asked for (outgrown), and that is not for this host. So is what this host waits for an answer about, which may
// take as long as its set waits. A group that only prefers other hosts does so for seconds, in which its member is the
// first that the queue hands out, too.
func (a arrival) never(outgrown bool) bool {
	if a.here != nil {
		return a.undecided()
	}
	return slices.Contains(a.build.Avoid, a.host) || a.fullOfGroup() ||
		a.closed != "" ||
		!accepts(a.build, a.traits) ||
		!a.fits && outgrown
}

// known decides about work for an instance that is here already.
func known(t task.Task, b compute.Build) (wire.Ack, string) {
	switch {
	case b.Project != t.Project:
		return wire.AckRelease, "an instance of another project with this id is here"
	case b.Attempt < t.Attempt:
		return wire.AckAccept, "a later attempt is here"
	case b.Attempt > t.Attempt, t.Stage == task.Ending:
		return wire.AckRelease, "an attempt that ends is here"
	case t.Answered:
		return wire.AckAccept, "it is here"
	}
	return wire.AckRenew, "it is being built here"
}

// accepts says whether a host with these traits may build it.
func accepts(b compute.Build, traits map[compute.Trait]bool) bool {
	return compute.Queue{Required: b.Required, Forbidden: b.Forbidden}.Accepts(traits)
}

// closed says why the user data of work cannot be opened here, for want of a key; empty: it can, or it is not sealed.
// The host's beacon and log have it from then on.
func (l *loop) closed(b compute.Build, now time.Time) string {
	err := l.o.Keys.Check(b.Sealed)
	if err == nil || compute.KindOf(err) != compute.KindUnavailable {
		return "" // what opens nowhere fails when it is prepared
	}
	if l.lacking.note(err.Error(), now) {
		l.log.Warn("work is left to others", zap.Error(err))
	}
	return err.Error()
}

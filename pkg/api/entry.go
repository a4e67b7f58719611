// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
)

// instanceKey names an instance among all projects.
type instanceKey struct {
	project compute.Project
	id      compute.InstanceID
}

// change is a new record of an instance that nobody else uses yet; without one,
// its tombstone.
type change struct {
	key      instanceKey
	at       events.Place
	instance *compute.Instance
	later    bool // a later Berth wrote it: nobody here knows what it says
	unread   bool // nobody knows what it says, nor of which instance: nothing is changed
}

// asked is a boot request as it is in the log.
type asked struct {
	*compute.Request
	origin
}

// origin is where a request is, in the partition of its project.
type origin struct {
	offset   int64
	unsigned bool // no publisher has signed it, as far as is known
}

// entry is what is known of an instance: its record or, before the conductor
// has decided, the request for it. Exactly one is set.
type entry struct {
	instance *compute.Instance
	request  *compute.Request
	listedAt int64 // in lists: when it was first known to be asked for, in nanoseconds since 1970
}

func (k entry) key() instanceKey {
	switch {
	case k.instance != nil:
		return instanceKey{k.instance.Project, k.instance.ID}
	case k.request != nil:
		return instanceKey{k.request.Project, k.request.Instance}
	}
	return instanceKey{}
}

func (k entry) boot() *compute.Boot {
	if k.instance != nil {
		return &k.instance.Boot
	}
	return k.request.Boot
}

// requestedAt is when it was asked for: what lists are ordered by.
func (k entry) requestedAt() time.Time {
	switch {
	case k.instance == nil:
		return k.request.At
	case !k.instance.AcceptedAt.IsZero():
		return k.instance.AcceptedAt
	}
	return k.instance.QueuedAt
}

// queue is where its work waits or waited, or will.
func (k entry) queue() compute.QueueName {
	if k.instance != nil {
		return k.instance.Queue
	}
	return k.request.Boot.Queue()
}

// line is the queue in which its work waits, which is another where its set is offered whole.
func (k entry) line() compute.QueueName {
	if k.instance != nil {
		return cmp.Or(k.instance.Whole(), k.instance.Queue)
	}
	return k.queue()
}

// needsQueue says whether its queue is still needed for it.
func (k entry) needsQueue() bool {
	return k.instance == nil || k.instance.State == compute.StateQueued || k.instance.State == compute.StateStarting
}

func (k entry) cursor() cursor { return cursor{k.listedAt, string(k.key().id)} }

func (k entry) compare(other entry) int { return k.cursor().compare(other.cursor()) }

// state is the record's, or StateAccepted before there is one. What is shown may
// be StateUnknown instead.
func (k entry) state() compute.State {
	if k.instance == nil {
		return compute.StateAccepted
	}
	return k.instance.State
}

// host is the host that has or had it, or that pinned work waits for; empty: none.
func (k entry) host() compute.HostID {
	switch {
	case k.instance == nil:
		return ""
	case k.instance.State == compute.StateQueued:
		return k.instance.Boot.Host
	}
	return k.instance.Host
}

// isEarly says whether it is a placeholder that its conductor keeps until shortly before its reservation begins.
func (k entry) isEarly() bool {
	i := k.instance
	return i.IsPlaceholder() && !i.PublishAt.IsZero() && len(i.Failures) == 0
}

// waitsInQueue says whether its work waits in a queue. Work that is pinned to a host does not, nor does a
// placeholder that its conductor keeps, for its taker or until shortly before its reservation begins; of a set that is
// offered whole the part does that leads.
func (k entry) waitsInQueue() bool {
	return k.state() == compute.StateQueued && k.instance.Boot.Host == "" && k.instance.Boot.In().ID == "" &&
		!k.instance.Boot.Placeholder().Kept && !k.isEarly() &&
		(k.instance.Whole() == "" || k.instance.Leads())
}

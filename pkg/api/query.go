// SPDX-License-Identifier: Apache-2.0

package api

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// instanceQuery is which of a project's instances are wanted. Each field that is set names
// an index that has all of them (a necessary condition): find walks the smallest of those
// and leaves it to wanted to decide about each entry (the sufficient one).
type instanceQuery struct {
	project compute.Project
	name    string
	host    compute.HostID
	queue   compute.QueueName
	flavor  compute.FlavorName
	group   compute.GroupName
	states  []compute.State  // as shown; none: any
	silent  []compute.HostID // onlyUnknown: the hosts of those instances

	after  cursor
	limit  int
	wanted func(entry) bool
}

// onlyUnknown says whether all that is wanted is on silent hosts.
func (q instanceQuery) onlyUnknown() bool {
	return slices.Equal(q.states, []compute.State{compute.StateUnknown})
}

// source is a part of what is known in which an answer may be looked for.
type source struct {
	size    int
	ordered bool // as lists are: what comes behind enough that are wanted is of no interest
	all     iter.Seq[*entry]
}

// find answers at least the first most of those that are wanted and come after
// the cursor, if there are so many; in no order.
func (v *instances) find(q instanceQuery) []entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []entry
	for _, s := range v.smallestSources(q) {
		n := 0
		for k := range s.all {
			if !q.after.before(*k) || k.key().project != q.project || !q.wanted(*k) {
				continue
			}
			out = append(out, *k)
			if n++; s.ordered && n == q.limit {
				break
			}
		}
	}
	return out
}

// smallestSources is the smallest set of sources that together have all that may be
// wanted.
func (v *instances) smallestSources(q instanceQuery) []source {
	t := v.byProject[q.project]
	if t == nil {
		return nil
	}
	sets := [][]source{t.withStates(q)}
	if q.name != "" {
		sets = append(sets, []source{t.withName(q.name, q.after)})
	}
	if q.host != "" {
		sets = append(sets, v.onHosts(q.host))
	}
	if q.onlyUnknown() {
		sets = append(sets, v.onHosts(q.silent...))
	}
	if q.queue != "" {
		sets = append(sets, []source{afterCursor(t.byQueue[q.queue], q.after)})
	}
	if q.flavor != "" {
		sets = append(sets, []source{afterCursor(t.byFlavor[q.flavor], q.after)})
	}
	if q.group != "" {
		sets = append(sets, t.inGroup(q))
	}
	return slices.MinFunc(sets, func(a, b []source) int { return sizes(a) - sizes(b) })
}

func sizes(set []source) int {
	n := 0
	for _, s := range set {
		n += s.size
	}
	return n
}

// withStates are those whose record may be shown as one of the states.
func (t *projectIndex) withStates(q instanceQuery) []source {
	var out []source
	for s, list := range t.byState {
		s := compute.State(s)
		if len(q.states) == 0 || slices.Contains(q.states, s) ||
			s.OnHost() && slices.Contains(q.states, compute.StateUnknown) {
			out = append(out, afterCursor(list, q.after))
		}
	}
	return out
}

// inGroup are the members of a group, and all that has ended: no index has of that what was booted into the group.
func (t *projectIndex) inGroup(q instanceQuery) []source {
	members := t.byGroup[q.group]
	out := []source{{size: len(members), all: maps.Keys(members)}}
	for s, list := range t.byState {
		s := compute.State(s)
		if s.Ended() && (len(q.states) == 0 || slices.Contains(q.states, s)) {
			out = append(out, afterCursor(list, q.after))
		}
	}
	return out
}

// afterCursor is what comes after the cursor.
func afterCursor(list *sorted.List[*entry], after cursor) source {
	return source{size: list.Len(), ordered: true, all: list.From(func(k *entry) bool { return !after.before(*k) })}
}

func (t *projectIndex) withName(name string, after cursor) source {
	is := func(k *entry) bool { return k.boot().Name == name }
	begin := func(k *entry) bool { return k.boot().Name < name || is(k) && !after.before(*k) }
	size := t.byName.Count(func(k *entry) bool { return k.boot().Name <= name }) - t.byName.Count(begin)
	return source{size: size, ordered: true, all: takeWhile(t.byName.From(begin), is)}
}

func (v *instances) onHosts(hosts ...compute.HostID) []source {
	var out []source
	for _, h := range hosts {
		out = append(out, source{size: len(v.byHost[h]), all: maps.Keys(v.byHost[h])})
	}
	return out
}

// takeWhile ends before the first that is not meant.
func takeWhile(all iter.Seq[*entry], match func(*entry) bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for k := range all {
			if !match(k) || !yield(k) {
				return
			}
		}
	}
}

// mostMeant is how many instances a word may mean: nobody chooses among more, and each is copied.
const mostMeant = 10_000

// resolve finds what a person may mean: the best kind of match there is, and among
// its matches the live ones if there are any; some of them where there are more than most. Placeholders are not meant
// by their names, unless they are asked for: what is booted into a reservation may well be called like them.
func (v *instances) resolve(p compute.Project, ref string, placeholders bool, most int) (found []entry, more bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.byProject[p]
	if t == nil {
		return nil, false
	}
	if k := v.lookup(instanceKey{p, compute.InstanceID(ref)}); k != nil {
		return []entry{*k}, false
	}
	called := func(k *entry) bool { return placeholders || k.boot().Placeholder().Of == "" }
	if found, more = preferLive(where(t.withName(ref, cursor{}).all, called), most); len(found) > 0 {
		return found, more
	}
	return preferLive(t.withPrefix(ref, called), most)
}

// where is those for which something holds.
func where(all iter.Seq[*entry], holds func(*entry) bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for k := range all {
			if holds(k) && !yield(k) {
				return
			}
		}
	}
}

// withPrefix is those that may be called by their names and whose name begins so, and then the others whose id does.
func (t *projectIndex) withPrefix(ref string, called func(*entry) bool) iter.Seq[*entry] {
	begins := func(k *entry) bool { return strings.HasPrefix(k.boot().Name, ref) }
	nameBegins := func(k *entry) bool { return begins(k) && called(k) }
	idBegins := func(k *entry) bool { return strings.HasPrefix(string(k.key().id), ref) }
	return func(yield func(*entry) bool) {
		named := takeWhile(t.byName.From(func(k *entry) bool { return k.boot().Name < ref }), begins)
		for k := range where(named, called) {
			if !yield(k) {
				return
			}
		}
		for k := range takeWhile(t.byID.From(func(k *entry) bool { return string(k.key().id) < ref }), idBegins) {
			if !nameBegins(k) && !yield(k) {
				return
			}
		}
	}
}

// preferLive is those that are not deleted, or, if all are, all; most of them where there are more.
func preferLive(all iter.Seq[*entry], most int) (found []entry, more bool) {
	var live, gone []entry
	goneToo := false
	for k := range all {
		switch deleted := k.state() == compute.StateDeleted; {
		case !deleted && len(live) == most:
			return live, true
		case !deleted:
			live = append(live, *k)
		case len(gone) < most:
			gone = append(gone, *k)
		default:
			goneToo = true
		}
	}
	if len(live) > 0 {
		return live, false
	}
	return gone, goneToo
}

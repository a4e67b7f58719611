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

// question is which of a project's instances are wanted, so that the narrowest
// index can be chosen. What it leaves open, wanted must decide; all that wanted
// lets through must be what it asks for.
type question struct {
	project compute.Project
	name    string
	host    compute.HostID
	queue   compute.QueueName
	flavor  compute.FlavorName
	states  []compute.State  // as shown; none: any
	silent  []compute.HostID // onlyUnknown: the hosts of those instances

	after  cursor
	most   int
	wanted func(known) bool
}

// onlyUnknown says whether all that is wanted is on silent hosts.
func (q question) onlyUnknown() bool {
	return slices.Equal(q.states, []compute.State{compute.StateUnknown})
}

// source is a part of what is known in which an answer may be looked for.
type source struct {
	size    int
	ordered bool // as lists are: what comes behind enough that are wanted is of no interest
	all     iter.Seq[*known]
}

// find answers at least the first most of those that are wanted and come after
// the cursor, if there are so many; in no order.
func (v *instances) find(q question) []known {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []known
	for _, s := range v.narrowest(q) {
		n := 0
		for k := range s.all {
			if !q.after.before(*k) || k.key().project != q.project || !q.wanted(*k) {
				continue
			}
			out = append(out, *k)
			if n++; s.ordered && n == q.most {
				break
			}
		}
	}
	return out
}

// narrowest is the smallest set of sources that together have all that may be
// wanted.
func (v *instances) narrowest(q question) []source {
	t := v.tenant[q.project]
	if t == nil {
		return nil
	}
	sets := [][]source{t.inStates(q)}
	if q.name != "" {
		sets = append(sets, []source{t.ofName(q.name, q.after)})
	}
	if q.host != "" {
		sets = append(sets, v.ofHosts(q.host))
	}
	if q.onlyUnknown() {
		sets = append(sets, v.ofHosts(q.silent...))
	}
	if q.queue != "" {
		sets = append(sets, []source{behind(t.queue[q.queue], q.after)})
	}
	if q.flavor != "" {
		sets = append(sets, []source{behind(t.flavor[q.flavor], q.after)})
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

// inStates are those whose record may be shown as one of the states.
func (t *tenant) inStates(q question) []source {
	var out []source
	for s, list := range t.in {
		s := compute.State(s)
		if len(q.states) == 0 || slices.Contains(q.states, s) ||
			s.OnHost() && slices.Contains(q.states, compute.StateUnknown) {
			out = append(out, behind(list, q.after))
		}
	}
	return out
}

// behind is what comes after the cursor.
func behind(list *sorted.List[*known], after cursor) source {
	return source{size: list.Len(), ordered: true, all: list.From(func(k *known) bool { return !after.before(*k) })}
}

func (t *tenant) ofName(name string, after cursor) source {
	is := func(k *known) bool { return k.boot().Name == name }
	begin := func(k *known) bool { return k.boot().Name < name || is(k) && !after.before(*k) }
	size := t.named.Count(func(k *known) bool { return k.boot().Name <= name }) - t.named.Count(begin)
	return source{size: size, ordered: true, all: upTo(t.named.From(begin), is)}
}

func (v *instances) ofHosts(hosts ...compute.HostID) []source {
	var out []source
	for _, h := range hosts {
		out = append(out, source{size: len(v.host[h]), all: maps.Keys(v.host[h])})
	}
	return out
}

// upTo ends before the first that is not meant.
func upTo(all iter.Seq[*known], meant func(*known) bool) iter.Seq[*known] {
	return func(yield func(*known) bool) {
		for k := range all {
			if !meant(k) || !yield(k) {
				return
			}
		}
	}
}

// refer finds what a person may mean: the best kind of match there is, and among
// its matches the live ones if there are any.
func (v *instances) refer(p compute.Project, ref string) []known {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.tenant[p]
	if t == nil {
		return nil
	}
	if k := v.at(key{p, compute.InstanceID(ref)}); k != nil {
		return []known{*k}
	}
	if found := liveFirst(t.ofName(ref, cursor{}).all); len(found) > 0 {
		return found
	}
	return liveFirst(t.begin(ref))
}

// begin is those whose name begins so, and then those of which only the id does.
func (t *tenant) begin(ref string) iter.Seq[*known] {
	nameBegins := func(k *known) bool { return strings.HasPrefix(k.boot().Name, ref) }
	idBegins := func(k *known) bool { return strings.HasPrefix(string(k.key().id), ref) }
	return func(yield func(*known) bool) {
		for k := range upTo(t.named.From(func(k *known) bool { return k.boot().Name < ref }), nameBegins) {
			if !yield(k) {
				return
			}
		}
		for k := range upTo(t.ids.From(func(k *known) bool { return string(k.key().id) < ref }), idBegins) {
			if !nameBegins(k) && !yield(k) {
				return
			}
		}
	}
}

// liveFirst is those that are not deleted, or, if all are, all.
func liveFirst(all iter.Seq[*known]) []known {
	var live, gone []known
	for k := range all {
		if k.state() == compute.StateDeleted {
			gone = append(gone, *k)
		} else {
			live = append(live, *k)
		}
	}
	if len(live) > 0 {
		return live
	}
	return gone
}

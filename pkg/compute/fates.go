// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"slices"
)

// Foreseen is what becomes of an instance.
type Foreseen struct {
	*Instance
	Becomes Fate
	Reason  ReasonCode // if it ends, or is deleted with its set
}

// FatesOf is what becomes of the instances of a dead host (FateOf), and of the others of their sets: until each of a
// set has run, one that fails ends all. mates answers all of an instance's set that have not ended, on whatever host.
func FatesOf(
	lost []*Instance, op RequestOp, mates func(*Instance) []*Instance, buildable func(*Instance) bool,
) []Foreseen {
	f := foresight{mates: mates, at: map[instanceOf]int{}}
	for _, i := range inOrder(lost) {
		if _, ended := f.at[keyOf(i)]; ended {
			continue // with its set
		}
		fate, why := FateOf(i, op, buildable(i))
		f.note(i, fate, why)
		if fate == FateEnded && i.Boot.Set().ID != "" {
			f.failed(i)
		}
	}
	return f.all
}

type foresight struct {
	mates func(*Instance) []*Instance
	all   []Foreseen
	at    map[instanceOf]int // in all
}

// instanceOf is an instance of a project: an id may be in two.
type instanceOf struct {
	Project
	InstanceID
}

func keyOf(i *Instance) instanceOf { return instanceOf{i.Project, i.ID} }

// inOrder is the order in which conductors go through them.
func inOrder(all []*Instance) []*Instance {
	return slices.SortedFunc(slices.Values(all), func(a, b *Instance) int { return cmp.Compare(a.ID, b.ID) })
}

func (f *foresight) note(i *Instance, fate Fate, why ReasonCode) {
	n, known := f.at[keyOf(i)]
	if !known {
		n = len(f.all)
		f.at[keyOf(i)], f.all = n, append(f.all, Foreseen{})
	}
	f.all[n] = Foreseen{i, fate, why}
}

// failed ends the others of a set of which one fails, unless each has run.
func (f *foresight) failed(i *Instance) {
	left := slices.DeleteFunc(inOrder(f.mates(i)), func(m *Instance) bool {
		n, known := f.at[keyOf(m)]
		return m.ID == i.ID || known && (f.all[n].Becomes == FateEnded || f.all[n].Becomes == FateDeleted)
	})
	ran := func(m *Instance) bool { return !m.ActiveAt.IsZero() }
	if ran(i) && !slices.ContainsFunc(left, func(m *Instance) bool { return !ran(m) }) {
		return
	}
	for _, m := range left {
		_, moved := f.at[keyOf(m)]
		switch {
		case m.State == StateQueued || moved:
			f.note(m, FateEnded, SetFailed)
		case m.State != StateDeleting:
			f.note(m, FateDeleted, SetFailed)
		}
	}
}

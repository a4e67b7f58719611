// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Kind is so many machines that want the same.
type Kind struct {
	Wanted
	Priority compute.Priority
	Count    int64
}

// Filled is what becomes of hosts that are filled with a mix of kinds.
type Filled struct {
	Fits []int64 // of each kind of the mix: how many have room, together with all others
	Left []Host  // the hosts as they are then, by name
	puts []put   // in order
	at   judge
}

// judge says what a host is to a machine, as Wanted.At does.
type judge func(Wanted, Host) Standing

// put is so many machines of a kind that go onto one host.
type put struct {
	Wanted
	kind  int // of the mix; -1: one that is ahead
	host  compute.HostID
	count int64
}

// Fill puts machines on hosts, as many of each kind as have room: first those ahead, which wait already, where they are
// most in the way, then the mix, of which the kind goes first that fewest hosts can take, and then the larger one. What
// is said to fit does, put on the hosts one by one; in another order there may be room for more. A host that has room in
// pieces counts as one that has not, but for the size of one machine, as for Verdict.Room.
//
// Each host is judged at most three times for each kind of the mix, and once for each that is ahead.
func Fill(ahead, mix []Kind, hosts []Host) Filled { return fill(Wanted.At, ahead, mix, hosts) }

func fill(at judge, ahead, mix []Kind, hosts []Host) Filled {
	out := Filled{Fits: make([]int64, len(mix)), Left: slices.Clone(hosts), at: at}
	if len(ahead) > 0 {
		out.Left = out.mostInTheWay(mix)
	}
	for _, k := range ahead {
		out.put(-1, k)
	}
	slices.SortFunc(out.Left, func(a, b Host) int { return cmp.Compare(a.Beacon.Host, b.Beacon.Host) })
	for _, i := range out.scarcest(mix) {
		out.Fits[i] = out.put(i, mix[i])
	}
	return out
}

// OneMore is what one more of a kind of the mix wants, beside those of it that were put on hosts.
func (f Filled) OneMore(kind int, w Wanted) Wanted {
	there := map[compute.HostID]uint32{}
	for _, p := range f.puts {
		if p.kind == kind {
			there[p.host] += uint32(p.count)
		}
	}
	w.Group = w.Group.with(there)
	return w
}

// mostInTheWay are the hosts, of which those come first that can take most kinds of a mix.
func (f *Filled) mostInTheWay(mix []Kind) []Host {
	type takes struct {
		Host
		kinds int
	}
	all := make([]takes, len(f.Left))
	for i, h := range f.Left {
		all[i].Host = h
		for _, k := range mix {
			if f.at(k.Wanted, h).Now() {
				all[i].kinds++
			}
		}
	}
	slices.SortFunc(all, func(a, b takes) int {
		return cmp.Or(cmp.Compare(b.kinds, a.kinds), cmp.Compare(a.Beacon.Host, b.Beacon.Host))
	})
	out := make([]Host, len(all))
	for i, t := range all {
		out[i] = t.Host
	}
	return out
}

// put answers how many of a kind have room, and takes it from the hosts.
//
// Members of a group are counted beside those that are on hosts already, and beside each other if they are of one kind.
func (f *Filled) put(kind int, k Kind) (n int64) {
	only := -1
	if k.Group.together() {
		only = f.roomiest(k)
	}
	most := min(k.Count, k.Group.atMost())
	for i, h := range f.Left {
		if n == most {
			break
		}
		if only >= 0 && i != only {
			continue
		}
		if !f.at(k.Wanted, h).Now() {
			continue
		}
		some := min(most-n, times(k.Resources, h.Beacon.Free), k.Group.allows(h.Beacon.Host))
		f.Left[i] = h.without(k.Resources, some)
		f.puts = append(f.puts, put{k.Wanted, kind, h.Beacon.Host, some})
		n += some
	}
	return n
}

// roomiest is the host that can take most of a kind; -1: none takes any.
func (f *Filled) roomiest(k Kind) int {
	best, most := -1, int64(0)
	for i, h := range f.Left {
		if n := times(k.Resources, h.Beacon.Free); n > most && f.at(k.Wanted, h).Now() {
			best, most = i, n
		}
	}
	return best
}

// without is a host with so many machines more.
func (h Host) without(each compute.Resources, n int64) Host {
	b := *h.Beacon
	b.Free = b.Free.Clone()
	for c, amount := range each {
		b.Free[c] -= amount * n
	}
	h.Beacon = &b
	return h
}

// scarcest are the kinds of a mix in the order in which they get room.
func (f *Filled) scarcest(mix []Kind) []int {
	free := compute.Resources{}
	for _, h := range f.Left {
		free.Add(h.Beacon.Free)
	}
	taking, order := make([]int, len(mix)), make([]int, len(mix))
	for i, k := range mix {
		order[i] = i
		for _, h := range f.Left {
			if f.at(k.Wanted, h).Now() {
				taking[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(taking[a], taking[b]),
			cmp.Compare(share(free, mix[b].Resources), share(free, mix[a].Resources)),
		)
	})
	return order
}

// MostToGo bounds ToGo, and with it the work, which is that many times the machines of the host.
const MostToGo = 32

// ToGo are machines of a host without which it would take what is wanted: the fewest where one class is short, else a
// few of which none can be left out; nil: it would not without all of them, or not without MostToGo of them, or something
// else keeps it.
func ToGo(w Wanted, h Host, there []*compute.Instance) []*compute.Instance {
	if w.At(h) != Full || !takesWithout(w, h, there) {
		return nil
	}
	var gone []*compute.Instance
	for rest := slices.Clone(there); !takesWithout(w, h, gone); {
		short := shortWithout(w, h, gone)
		at := bestToGo(rest, short)
		if at < 0 || len(gone) == MostToGo {
			return nil
		}
		gone = append(gone, rest[at])
		rest = slices.Delete(rest, at, at+1)
	}
	for i := 0; i < len(gone); { // what came first may have become needless by what came later
		if less := slices.Delete(slices.Clone(gone), i, i+1); takesWithout(w, h, less) {
			gone = less
		} else {
			i++
		}
	}
	return gone
}

// bestToGo is the machine that frees most of what is short, and of those the one that has least besides; -1: none does.
func bestToGo(there []*compute.Instance, short compute.Resources) int {
	best, most, size, classes := -1, 0.0, 0.0, short.Classes()
	for i, m := range there {
		helps, has := 0.0, share(short, m.Resources)
		for _, c := range classes { // in order, for sums of fractions depend on it
			helps += float64(min(short[c], m.Resources[c])) / float64(short[c])
		}
		if helps > most || best >= 0 && helps == most && (has < size || has == size && m.ID < there[best].ID) {
			best, most, size = i, helps, has
		}
	}
	return best
}

// emptier is what is free on a host, and in one piece, without some of its machines: each of them was in one piece.
func emptier(h Host, gone []*compute.Instance) (free, largest compute.Resources) {
	free, largest = h.Beacon.Free.Plus(nil), h.Beacon.Largest.Clone()
	for _, m := range gone {
		free.Add(m.Resources)
		for c := range largest {
			largest[c] = max(largest[c], m.Resources[c])
		}
	}
	return free, largest
}

func takesWithout(w Wanted, h Host, gone []*compute.Instance) bool {
	free, largest := emptier(h, gone)
	return fits(w.Resources, free, largest)
}

func shortWithout(w Wanted, h Host, gone []*compute.Instance) compute.Resources {
	free, largest := emptier(h, gone)
	return beyond(w.Resources, free, largest)
}

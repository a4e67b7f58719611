// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Wanted is one machine that somebody wants.
type Wanted struct {
	Queue     compute.QueueName // hosts that save room for it let it have that; empty: none of theirs
	Resources compute.Resources
	Required  []compute.Trait
	Forbidden []compute.Trait
	Host      compute.HostID   // on it and nowhere else; empty: anywhere
	Avoid     []compute.HostID // never there
	Failed    []compute.HostID // where earlier attempts failed
	Image     string
	Key       compute.KeyID // that its user data is sealed under; empty: none
	Group     *Group        // nil: it is a member of none, or of one without a rule
}

// Host is what is known of a host.
type Host struct {
	Beacon *compute.Beacon
	Silent bool              // not heard of for compute.SilentAfter
	Whole  compute.Resources // of the beacon; nil: it is worked out each time
}

// Standing is what a host is to a machine: the first that applies, in this order.
type Standing uint8

// The standings. Up to TooSmall they stay as long as the request, the host and the flavor are what they are.
const (
	OtherHost   Standing = iota // the request is for another host
	Avoided                     // the request is never to be built there
	LacksTrait                  // it lacks a trait, or has one that it must not
	TooSmall                    // even when it is empty
	KeptOut                     // the rule of the machine's group keeps it from there
	LacksKey                    // it cannot open the user data
	Silent                      // not heard of
	Twin                        // two agents have its name, so it takes nothing
	Disabled                    // an operator took it out
	Draining                    // an operator empties it
	Quarantined                 // it stopped offering by itself: starts failed, or it could not begin one
	Full                        // it would fit when emptier
	Mistrusts                   // its image has failed there lately: it leaves the work to others first
	FailedThere                 // an attempt failed there: it leaves the work to others first
	Fits                        // it can take it now
	standings
)

var standingNames = [...]string{
	"pinned-elsewhere", "avoided", "lacks-trait", "too-small", "group-rule", "lacks-key", "silent", "twin", "disabled", "draining",
	"quarantined", "full", "mistrusts-image", "failed-there", "fits",
}

// String is the standing's name in APIs.
func (s Standing) String() string {
	if s < standings {
		return standingNames[s]
	}
	return "unknown"
}

// Never says whether a host in this standing never takes the machine, whatever becomes free.
func (s Standing) Never() bool { return s <= TooSmall }

// Now says whether it can take it now.
func (s Standing) Now() bool { return s >= Mistrusts && s < standings }

// Verdict is what one host is to a machine.
type Verdict struct {
	Host     compute.HostID
	Standing Standing
	Short    compute.Resources // TooSmall: beyond what it has; of those that may take it later: beyond what is free there
	Traits   []compute.Trait   // LacksTrait: those that it lacks or must not have
	Saving   *compute.Saving   // Full, and those that come before it: what the host saves room for; nil: nothing
	Reason   string            // Disabled, Draining and Quarantined: why, as the host says
	Room     int64             // how many such machines it could begin now, by what is free; 0 unless Now
	Empty    int64             // how many it could have when it is empty; 0 if Never
}

// Judge says what a host is to a machine.
func Judge(w Wanted, h Host) Verdict {
	b := h.Beacon
	out := Verdict{Host: b.Host, Standing: w.At(h)}
	switch out.Standing {
	case LacksTrait:
		out.Traits = w.unfit(b.Inventory.Traits)
	case TooSmall:
		out.Short = beyond(w.Resources, h.whole(), b.Inventory.Largest)
	case KeptOut, LacksKey, Silent, Twin, Full:
		out.Short, out.Saving = beyond(w.Resources, w.free(b), b.Largest), b.Saving
	case Disabled, Draining, Quarantined:
		out.Short, out.Reason = beyond(w.Resources, w.free(b), b.Largest), b.Reason
	}
	out.Room, out.Empty = w.room(out.Standing, h)
	return out
}

// room is how many such machines a host in this standing could begin now, and could have when it is empty.
func (w Wanted) room(s Standing, h Host) (now, empty int64) {
	if s.Now() {
		now = min(times(w.Resources, w.free(h.Beacon)), w.Group.allows(h.Beacon.Host))
	}
	if !s.Never() {
		empty = times(w.Resources, h.whole())
	}
	return now, empty
}

// At is what a host is to a machine, and no more: it allocates nothing.
func (w Wanted) At(h Host) Standing {
	b := h.Beacon
	switch {
	case w.Host != "" && w.Host != b.Host:
		return OtherHost
	case slices.Contains(w.Avoid, b.Host):
		return Avoided
	case !w.accepts(b.Inventory.Traits):
		return LacksTrait
	case !fits(w.Resources, h.whole(), b.Inventory.Largest):
		return TooSmall
	case w.Group.allows(b.Host) < 1:
		return KeptOut
	case w.Key != "" && !slices.Contains(b.Opens, w.Key):
		return LacksKey
	case h.Silent || b.State == compute.HostSilent || b.Leaves:
		return Silent
	case b.Beside != (compute.Voice{}):
		return Twin
	case b.State == compute.HostDisabled:
		return Disabled
	case b.State == compute.HostDraining:
		return Draining
	case b.State == compute.HostQuarantined:
		return Quarantined
	case !fits(w.Resources, b.Free, b.Largest) || !w.fitsBeside(b):
		return Full
	case slices.Contains(w.Failed, b.Host):
		return FailedThere
	case w.Host == "" && slices.Contains(b.Mistrusts, w.Image): // what is for one host has no others
		return Mistrusts
	}
	return Fits
}

// keeps says whether a host saves room that the machine does not get. What is for one host has it all the same.
func (w Wanted) keeps(b *compute.Beacon) bool {
	return b.Saving != nil && w.Host == "" && w.keepsFor(b.Saving)
}

// free is what a host has free for the machine.
func (w Wanted) free(b *compute.Beacon) compute.Resources {
	if !w.keeps(b) {
		return b.Free
	}
	return b.Free.Minus(b.Saving.Needs)
}

// fitsBeside says whether the machine fits beside what the host saves room for; it allocates nothing.
func (w Wanted) fitsBeside(b *compute.Beacon) bool {
	if !w.keeps(b) {
		return true
	}
	for c, n := range w.Resources {
		if n > b.Free[c]-b.Saving.Needs[c] {
			return false
		}
	}
	return true
}

// accepts says whether a host with these traits does.
func (w Wanted) accepts(has []compute.Trait) bool {
	for _, t := range w.Required {
		if !slices.Contains(has, t) {
			return false
		}
	}
	for _, t := range w.Forbidden {
		if slices.Contains(has, t) {
			return false
		}
	}
	return true
}

// unfit are the traits for which a host with these does not do.
func (w Wanted) unfit(has []compute.Trait) (out []compute.Trait) {
	for _, t := range w.Required {
		if !slices.Contains(has, t) {
			out = append(out, t)
		}
	}
	for _, t := range w.Forbidden {
		if slices.Contains(has, t) {
			out = append(out, t)
		}
	}
	return out
}

// Whole is what a host has for machines when there is none.
func Whole(b *compute.Beacon) compute.Resources {
	return b.Inventory.Totals.Minus(b.Inventory.Reserved)
}

func (h Host) whole() compute.Resources {
	if h.Whole == nil {
		return Whole(h.Beacon)
	}
	return h.Whole
}

// fits says whether one machine may have what is wanted.
func fits(wanted, there, largest compute.Resources) bool {
	for c, n := range wanted {
		if n > most(c, there, largest) {
			return false
		}
	}
	return true
}

// beyond is what is wanted of each class beyond what one machine may have of what is there; nil: nothing.
func beyond(wanted, there, largest compute.Resources) compute.Resources {
	var short compute.Resources
	for c, n := range wanted {
		if has := most(c, there, largest); n > has {
			if short == nil {
				short = compute.Resources{}
			}
			short[c] = n - max(0, has)
		}
	}
	return short
}

// most is how much of a class one machine may have.
func most(c compute.ResourceClass, there, largest compute.Resources) int64 {
	if n, less := largest[c]; less {
		return min(n, there[c])
	}
	return there[c]
}

// times is how many of what is wanted are there, where one is: that one machine may have less than all bounds the first
// alone.
func times(wanted, there compute.Resources) int64 {
	n := int64(compute.MaxAmount)
	for c, amount := range wanted {
		if amount > 0 {
			n = min(n, there[c]/amount)
		}
	}
	return n
}

// nearer orders verdicts: hosts that can take it come first, then those that lack least.
func nearer(w Wanted) func(a, b Verdict) int {
	return func(a, b Verdict) int {
		return cmp.Or(
			cmp.Compare(b.Standing, a.Standing),
			cmp.Compare(share(w.Resources, a.Short), share(w.Resources, b.Short)),
			cmp.Compare(len(a.Traits), len(b.Traits)),
			cmp.Compare(a.Host, b.Host),
		)
	}
}

// share is how much of what is wanted is short, of the class of which the largest part is.
func share(wanted, short compute.Resources) (most float64) {
	for c, n := range short {
		if wanted[c] > 0 {
			most = max(most, float64(n)/float64(wanted[c]))
		}
	}
	return most
}

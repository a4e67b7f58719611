package offer

import "github.com/berth-project/berth/pkg/compute"

// Free is what is left of a host: its totals without the reserved share,
// without machines that Berth did not start, and without all that is held,
// by machines (running or not) and by work that was taken. It is negative
// where a host has more on it than it should.
func Free(inv compute.Inventory, held ...compute.Resources) compute.Resources {
	free := inv.Totals.Minus(inv.Reserved).Minus(inv.Unmanaged)
	for _, h := range held {
		free = free.Minus(h)
	}
	return free
}

// Traits is a host's list as a set.
func Traits(list []compute.Trait) map[compute.Trait]bool {
	set := make(map[compute.Trait]bool, len(list))
	for _, t := range list {
		set[t] = true
	}
	return set
}

// Fits says whether a machine with these needs can be built now.
func Fits(needs compute.Resources, required, forbidden []compute.Trait, free compute.Resources, traits map[compute.Trait]bool) bool {
	return needs.FitsIn(free) && compute.Queue{Required: required, Forbidden: forbidden}.Accepts(traits)
}

// Look finds the queues whose work fits now, each by itself, in the order given.
func Look(free compute.Resources, traits map[compute.Trait]bool, queues []compute.Queue) []compute.Queue {
	var fits []compute.Queue
	for _, q := range queues {
		if Fits(q.Resources, q.Required, q.Forbidden, free, traits) {
			fits = append(fits, q)
		}
	}
	return fits
}

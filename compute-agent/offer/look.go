package offer

import "github.com/berth-project/berth/pkg/compute"

// Traits is a host's list as a set.
func Traits(list []compute.Trait) map[compute.Trait]bool {
	set := make(map[compute.Trait]bool, len(list))
	for _, t := range list {
		set[t] = true
	}
	return set
}

// Fits says whether a machine with these needs can be built now.
func Fits(needs compute.Resources, required, forbidden []compute.Trait, room Room, traits map[compute.Trait]bool) bool {
	return compute.Queue{Required: required, Forbidden: forbidden}.Accepts(traits) && room.Fits(needs)
}

// Look finds the queues whose work fits now, each by itself, in the order given.
func Look(room Room, traits map[compute.Trait]bool, queues []compute.Queue) []compute.Queue {
	var fits []compute.Queue
	for _, q := range queues {
		if Fits(q.Resources, q.Required, q.Forbidden, room, traits) {
			fits = append(fits, q)
		}
	}
	return fits
}

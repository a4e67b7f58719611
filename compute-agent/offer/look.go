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

// Look finds the queues whose work fits now, each by itself, in the order given.
func Look(room Room, traits map[compute.Trait]bool, queues []compute.Queue) []compute.Queue {
	var fits []compute.Queue
	for _, q := range queues {
		if q.Accepts(traits) && room.Fits(q.Resources) {
			fits = append(fits, q)
		}
	}
	return fits
}

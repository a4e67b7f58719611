// SPDX-License-Identifier: Apache-2.0

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

// Accepted finds the queues with work that a host with these traits may take, in the order given.
func Accepted(traits map[compute.Trait]bool, queues []compute.Queue) []compute.Queue {
	var out []compute.Queue
	for _, q := range queues {
		if q.Accepts(traits) {
			out = append(out, q)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"math"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	// fewWaiters is how many hosts should wait at least on a queue without work in it, where queues are many. With two
	// in the mean no host waits on it in 14 of a hundred epochs (e⁻²): what comes then is found by the hosts that read
	// that it lies there.
	fewWaiters = 2
	// mostOwn is on how many queues each of a thousand hosts waits at once before fewer wait on each.
	mostOwn = 3
)

// Share is on how many queues a host would wait at once, if as many hosts waited on each as should. A fetch that ends
// costs a broker
//
//	queues it lists × other hosts that wait on each × queues that each of them lists
//
// so all W hosts together cost it W·n² where each lists n queues. That product may be as large as with mostOwn queues
// for a thousand hosts: n = 3·√(1000/W), which is 9.5 for a hundred hosts and 30 for ten. Above that, fewer than
// eight hosts wait on each queue that is empty, in proportion, and fewWaiters at least. Work that lies somewhere is
// told of, so there nothing changes (docs/decisions/0035).
type Share float64

// Add takes one more queue into account.
func (s *Share) Add(a compute.QueueAdvice) {
	a.Depth = 0
	*s += Share(chance(a.Eligible, float64(a.Wanted())))
}

// Chances are how likely each eligible host should wait on a queue: if no work lay in it, and
// with what lies there.
func (s Share) Chances(a compute.QueueAdvice) (own, all float64) {
	depth := a.Depth
	all = chance(a.Eligible, float64(a.Wanted()))
	a.Depth = 0
	want := float64(a.Wanted())
	if s > 0 {
		most := mostOwn * math.Sqrt(1000/float64(max(a.Eligible, 1)))
		want = max(fewWaiters, want*min(1, most/float64(s)))
	}
	if own = chance(a.Eligible, want); depth == 0 {
		all = own
	}
	return own, all
}

func chance(eligible uint32, want float64) float64 {
	if eligible == 0 {
		return 1
	}
	return min(1, want/float64(eligible))
}

// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Load is what hosts are filled with. DefaultLoad has all of it.
type Load struct {
	Hosts    int
	HostSize int           // processors of each host
	Sizes    []int         // of machines, in processors: as many boots of each in the mean
	Life     time.Duration // of a machine from its start on, in the mean of an exponential distribution
	// Fill is the share of the hosts' processors that machines would have in the mean if none had to wait.
	Fill    float64
	High    float64 // share of the boots of high priority
	Low     float64 // of low priority
	Grouped float64 // share of the boots that are members of a group
	GroupOf int     // members of a group, which come at once
	// Projects that boots are spread over by lot.
	Projects int
	Seed     uint64
	Warmup   float64       // lives until what is measured begins: so long the hosts fill
	For      time.Duration // how long is measured
}

// DefaultLoad is four sizes on a few full hosts, for five minutes after a warm-up.
func DefaultLoad() Load {
	return Load{
		Hosts: 10, HostSize: 16, Sizes: []int{1, 2, 4, 8}, Life: time.Minute, Fill: 0.95, High: 0.1, Low: 0.1,
		Grouped: 0.1, GroupOf: 3, Projects: 16, Seed: 1, Warmup: 3, For: 5 * time.Minute,
	}
}

// mostBoots bounds what a run remembers.
const mostBoots = 1_000_000

// Check refuses what cannot be sent.
func (l Load) Check() error {
	for _, n := range []struct {
		flag            string
		is, least, most float64
	}{
		{"hosts", float64(l.Hosts), 1, 10_000}, {"host-size", float64(l.HostSize), 1, 1 << 20},
		{"life", l.Life.Seconds(), 0.01, 1e6}, {"fill", l.Fill, 0.01, 2},
		{"grouped", l.Grouped, 0, 1}, {"group-of", float64(l.GroupOf), 1, 10_000},
		{"projects", float64(l.Projects), 1, 1000}, {"warmup-lives", l.Warmup, 0, 1000},
		{"for", l.For.Seconds(), 0.1, 7 * 86_400},
	} {
		if !(n.is >= n.least && n.is <= n.most) {
			return compute.Invalid(n.flag, fmt.Sprint(n.is), fmt.Sprintf("give a number from %v to %v", n.least, n.most))
		}
	}
	if l.High < 0 || l.Low < 0 || !(l.High+l.Low <= 1) {
		return compute.Invalid("priorities", fmt.Sprintf("high=%v,low=%v", l.High, l.Low),
			"give shares from 0 to 1 that are 1 together at most")
	}
	if l.Grouped > 0 && l.GroupOf > l.Hosts {
		return compute.Invalid("group-of", fmt.Sprint(l.GroupOf),
			fmt.Sprintf("each member needs a host of its own: give at most %d, or --grouped 0", l.Hosts))
	}
	return l.checkSizes()
}

func (l Load) checkSizes() error {
	if len(l.Sizes) == 0 {
		return compute.Invalid("sizes", "", "give one or more")
	}
	for i, s := range l.Sizes {
		if s < 1 || s > l.HostSize {
			return compute.Invalid("sizes", fmt.Sprint(s), fmt.Sprintf("give 1 to %d, which a host has", l.HostSize))
		}
		if slices.Contains(l.Sizes[:i], s) {
			return compute.Invalid("sizes", fmt.Sprint(s), "give each size once")
		}
	}
	if n := l.Rate() * l.Until().Seconds(); n > mostBoots {
		return compute.Invalid("for", l.For.String(), fmt.Sprintf(
			"that is some %.0f boots: give a shorter time, fewer hosts or a longer life, for at most %d", n, mostBoots))
	}
	return nil
}

// Rate is how many boots come a second, in the mean: so many that they fill the hosts as far as is wanted.
func (l Load) Rate() float64 {
	sum := 0
	for _, s := range l.Sizes {
		sum += s
	}
	mean := float64(sum) / float64(len(l.Sizes))
	return l.Fill * float64(l.Processors()) / mean / l.Life.Seconds()
}

// Processors are those of all hosts.
func (l Load) Processors() int { return l.Hosts * l.HostSize }

// From is when what is measured begins, from the first moment on.
func (l Load) From() time.Duration { return time.Duration(l.Warmup * float64(l.Life)) }

// Until is when it ends.
func (l Load) Until() time.Duration { return l.From() + l.For }

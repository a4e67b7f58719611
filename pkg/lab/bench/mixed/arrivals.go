// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Arrival is one boot that comes.
type Arrival struct {
	At       time.Duration // from the first moment on
	Size     int           // the place of its size among those of the load
	Priority compute.Priority
	Project  int
	Group    compute.GroupName // empty: none
	Life     time.Duration     // from its start on
}

// mostGroups is how many groups of one project are used in turn: a project may have a thousand.
const mostGroups = 900

// Arrivals are all that come, in their order: a Poisson process of single boots and of whole groups, whose members come
// at once and are of one size and class. Equal loads have equal arrivals.
func (l Load) Arrivals() []Arrival {
	random := rand.New(rand.NewPCG(l.Seed, 0x3417))
	whole := l.wholeGroups()
	each := 1 + whole*float64(l.GroupOf-1)
	groups := make([]int, l.Projects)
	var out []Arrival
	for at := time.Duration(0); ; {
		at += time.Duration(random.ExpFloat64() * each / l.Rate() * float64(time.Second))
		if at >= l.Until() {
			return out
		}
		a := Arrival{
			At: at, Size: random.IntN(len(l.Sizes)), Project: random.IntN(l.Projects),
			Priority: l.class(random.Float64()),
		}
		n := 1
		if random.Float64() < whole {
			n = l.GroupOf
			a.Group = compute.GroupName(fmt.Sprintf("apart-%d", groups[a.Project]%mostGroups))
			groups[a.Project]++
		}
		for range n {
			a.Life = time.Duration(random.ExpFloat64() * float64(l.Life))
			out = append(out, a)
		}
	}
}

// wholeGroups is the share of what comes that are groups: p groups of n members among 1-p single boots make the share
// of members p*n/(1-p+p*n).
func (l Load) wholeGroups() float64 {
	n := float64(l.GroupOf)
	return l.Grouped / (n - l.Grouped*(n-1))
}

func (l Load) class(at float64) compute.Priority {
	switch {
	case at < l.High:
		return compute.PriorityHigh
	case at < l.High+l.Low:
		return compute.PriorityLow
	}
	return compute.PriorityNormal
}

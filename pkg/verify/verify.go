// SPDX-License-Identifier: Apache-2.0

// Package verify compares what the log says with what the hosts say and with
// the quotas, and explains every difference. It asks nobody: Compare is a
// function of what was read.
package verify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Level is how bad a difference is.
type Level string

// The levels. Fail: something does not hold that always should, or nothing will
// put it right by itself. Warn: it explains itself, or passes.
const (
	Fail Level = "FAIL"
	Warn Level = "warn"
)

// Difference is one thing that is not as the rest says.
type Difference struct {
	Level Level          `json:"level"`
	About string         `json:"about"`          // instance p/7f…, host h1, project p, partition 3
	Host  compute.HostID `json:"host,omitempty"` // the host that said so; empty: the log alone says it
	Says  string         `json:"says"`           // what was found
	Want  string         `json:"want"`           // what the rest says
	Why   string         `json:"why"`            // what it means
	Fix   string         `json:"fix"`            // what to do
}

// Record is one record of the instances topic, the newest of its key.
type Record struct {
	Partition int32
	Key       string
	Instance  compute.Instance
	Err       error // it could not be read; Instance is empty then
}

// Facts are what is compared.
type Facts struct {
	Now     time.Time
	Home    func(compute.Project) int32 // the partition of a project
	Records []Record
	Beacons []compute.Beacon
	Queues  []compute.Queue
	Quotas  []compute.Quota
}

// Tally is how much was compared.
type Tally struct {
	Instances int            `json:"instances"`
	States    map[string]int `json:"states"`
	// Sealed is how many instances, by the key under which their user data is sealed, may need it again.
	Sealed   map[compute.KeyID]int `json:"sealed,omitempty"`
	Hosts    int                   `json:"hosts"`
	Projects int                   `json:"projects"`
}

// Compare finds every difference, the worst first.
func Compare(f Facts) (Tally, []Difference) {
	c := comparison{
		Facts: f, hosts: map[compute.HostID]*onHost{}, used: map[compute.Project]compute.Resources{},
		queues: map[compute.QueueName]bool{}, taken: map[heldRoom]bool{},
	}
	for _, q := range f.Queues {
		c.queues[q.Name] = true
	}
	for _, b := range f.Beacons {
		c.host(b.Host).beacon = &b
	}
	c.noteTakers()
	tally := Tally{States: map[string]int{}, Sealed: map[compute.KeyID]int{}}
	for _, r := range f.Records {
		if c.record(r) {
			tally.Instances++
			tally.States[r.Instance.State.String()]++
			tally.sealed(r.Instance)
		}
	}
	c.compareHosts()
	c.compareQuotas()
	c.compareKeys(tally.Sealed)
	tally.Hosts, tally.Projects = len(c.hosts), len(c.used)
	slices.SortStableFunc(c.found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.About, b.About)) // FAIL sorts before warn
	})
	return tally, c.found
}

// Sound says whether nothing fails.
func Sound(all []Difference) bool {
	return !slices.ContainsFunc(all, func(d Difference) bool { return d.Level == Fail })
}

// comparison is one at work.
type comparison struct {
	Facts
	hosts  map[compute.HostID]*onHost
	used   map[compute.Project]compute.Resources
	queues map[compute.QueueName]bool
	taken  map[heldRoom]bool // the room of placeholders that machines have
	found  []Difference
}

func (c *comparison) find(d Difference) { c.found = append(c.found, d) }

func (c *comparison) host(id compute.HostID) *onHost {
	h := c.hosts[id]
	if h == nil {
		h = &onHost{id: id, uses: compute.Resources{}}
		c.hosts[id] = h
	}
	return h
}

func aboutInstance(i compute.Instance) string { return fmt.Sprintf("instance %s/%s", i.Project, i.ID) }

// SPDX-License-Identifier: Apache-2.0

// Package doctor judges whether a Kafka cluster and the cell on it are as Berth
// needs them. It asks nobody: Examine is a function of facts, and says for each
// thing what it is, what it should be, and what to type to make it so.
package doctor

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/wire"
)

// Level is how bad something is.
type Level string

// The levels. Fail: something does not work, or what was acknowledged can be
// lost. Warn: it works, and slower or with less reserve than it should.
const (
	Fail Level = "FAIL"
	Warn Level = "warn"
	OK   Level = "ok"
)

// Finding is one thing that was looked at.
type Finding struct {
	Level  Level  `json:"level"`
	About  string `json:"about"`  // broker 1, topic berth.requests, conductors, …
	Check  string `json:"check"`  // the setting or the question
	Is     string `json:"is"`     // what was found
	Wanted string `json:"wanted"` // what would be ok
	Why    string `json:"why,omitempty"`
	Fix    string `json:"fix,omitempty"` // a command to paste, or what to do; empty if ok
}

// Facts are everything that is looked at.
type Facts struct {
	Now       time.Time
	Bootstrap string          // host:port for the commands
	As        access.Identity // the user of the doctor
	Topics    wire.Topics
	Cluster   admin.ClusterFacts
	Heap      int64                       // of each broker, in MB; 0: not known
	Own       map[string]admin.TopicFacts // by name: Kafka's internal ones and all of the cell's
	Refused   []string                    // topics that the user of the doctor may not describe
	Plan      func(topic string, replicas int16) (admin.TopicPlan, bool)
	Plans     func(replicas int16) []admin.TopicPlan
	Queues    []compute.Queue // the queue list
	Progress  []admin.QueueProgress
	Groups    map[string]map[string]string // settings of the share groups
	Conductor admin.GroupFacts
	Aside     []int32 // partitions of which instances says that they are set aside
	Manager   admin.GroupFacts
	Beacons   []compute.Beacon
	Unsigned  []compute.HostID // whose last beacon has no MAC
	Trust     string           // hosts.trust of the file that the doctor was given; empty: it has none
	Publish   string           // publish.trust, likewise
	Audit     AuditFacts
	UserData  UserDataFacts

	// Why something of the above is not known; nil: it is. Mostly it is what this user may not do.
	QueuesErr    error // Queues, and with it Progress and Groups
	GroupErrs    map[string]error
	ConductorErr error
	AsideErr     error
	ManagerErr   error
	BeaconsErr   error // Beacons and Unsigned

	Certificate CertificateFacts
}

// Examine judges all of it: what fails first, then what is not as it should be.
func Examine(f Facts) []Finding {
	all := slices.Concat(brokers(f), internals(f), cell(f), queues(f), parts(f), audit(f), certificate(f))
	rank := map[Level]int{Fail: 0, Warn: 1, OK: 2}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(rank[a.Level], rank[b.Level]) })
	return all
}

// Healthy says whether nothing fails.
func Healthy(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Fail })
}

// with is the finding at a level; one that is ok needs no reason and no fix.
func (f Finding) with(l Level) Finding {
	f.Level = l
	if l == OK {
		f.Why, f.Fix = "", ""
	}
	return f
}

// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	// MostBrokers is how many brokers a world has at most.
	MostBrokers = 3
	// FirstPort is the first broker's; the next ones are the others'.
	FirstPort = 9092
	// StateTime is how long a state is awaited in which something is to be done.
	StateTime = 15 * time.Second
)

// Schedule is one simulated history: what there is, what is asked, and what
// goes wrong. It is plain data: Generate makes it of a seed, a file keeps it.
type Schedule struct {
	Seed   uint64  `json:"seed"`
	World  World   `json:"world"`
	Load   []Load  `json:"load"`
	Faults []Fault `json:"faults,omitempty"`
}

// Seconds is a moment or a duration in virtual time.
type Seconds float64

// Duration is s in Go's words.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

func (s Seconds) String() string { return fmt.Sprintf("%.3fs", float64(s)) }

func SecondsOf(d time.Duration) Seconds { return Seconds(d.Round(time.Millisecond).Seconds()) }

// World is what there is before anything goes wrong.
type World struct {
	Hosts      []Host               `json:"hosts"`
	Flavors    []compute.Flavor     `json:"flavors"`
	Axes       []compute.Capability `json:"axes,omitempty"`
	Groups     []compute.Group      `json:"groups,omitempty"`
	Conductors int                  `json:"conductors"`
	Managers   int                  `json:"managers"`
	Nodes      int                  `json:"nodes"` // of the API
	Partitions int32                `json:"partitions"`
	Latency    Seconds              `json:"latency,omitempty"` // of each message, at most
	Sips       bool                 `json:"sips,omitempty"`    // a fetch brings one batch of a partition
	Bad        []BadImage           `json:"bad,omitempty"`
	Later      bool                 `json:"later,omitempty"`  // all are of a later version, which reads a schema more
	Older      bool                 `json:"older,omitempty"`  // but for the agents
	Clocks     []Clock              `json:"clocks,omitempty"` // those that are wrong

	TurnBytes int `json:"turn_bytes,omitempty"` // most that a conductor's turn writes to a partition; 0: no limit is met

	Share int `json:"share,omitempty"` // builds of a project that are in one queue, at least; 0: the default

	Saves bool `json:"saves,omitempty"` // hosts save room for large work soon, and not for long

	SayAgain Seconds `json:"say_again,omitempty"` // after so long hosts say again what is there; 0: after a day

	Deaf bool `json:"deaf,omitempty"` // guests do not stop when they are asked

	Keys bool `json:"keys,omitempty"` // hosts and publishers sign, and conductors believe nothing else

	Brokers int `json:"brokers,omitempty"` // 0: one

	LateAt Seconds `json:"late_at,omitempty"` // when the groups called Late are made; 0: there are none
}

// Host is a host and how fast its hypervisor is.
type Host struct {
	ID      compute.HostID    `json:"id"`
	Totals  compute.Resources `json:"totals"`
	Traits  []compute.Trait   `json:"traits,omitempty"`
	Prepare Seconds           `json:"prepare,omitempty"`
	Launch  Seconds           `json:"launch,omitempty"`
	Destroy Seconds           `json:"destroy,omitempty"`
}

// What clients and operators do.
const (
	LoadBoot       = "boot"
	LoadSet        = "set"     // Boots, of which all start or none
	LoadReserve    = "reserve" // so many placeholders of Boot, under Name
	LoadTake       = "take"    // Boot, into a reservation
	LoadDelete     = "delete"
	LoadQuota      = "quota"
	LoadAddFlavor  = "add flavor"
	LoadDropFlavor = "remove flavor"
	LoadResize     = "resize flavor" // removed once nothing waits in its queues, and added as it is to be
	LoadAddAxis    = "add capability"
	LoadDropAxis   = "remove capability"
	LoadPower      = "power"
	LoadHost       = "host"
	LoadGroup      = "group"
	LoadLabel      = "label" // give it a label, with a value of its own
)

// Load is one thing that somebody asks for.
type Load struct {
	At      Seconds         `json:"at"`
	Op      string          `json:"op"`
	Node    int             `json:"node,omitempty"` // of the API that is asked
	Project compute.Project `json:"project,omitempty"`
	Name    string          `json:"name,omitempty"` // of the instance; each boot has one of its own
	// boot: "id" or "key"; empty: the API makes the id. delete: "id": written to Kafka, whether or not anybody knows
	// the id
	Own   string         `json:"own,omitempty"`
	Boot  *compute.Boot  `json:"boot,omitempty"`
	Boots []compute.Boot `json:"boots,omitempty"` // set
	Count int            `json:"count,omitempty"` // reserve
	From  Seconds        `json:"from,omitempty"`  // reserve: how much later it begins
	For   Seconds        `json:"for,omitempty"`   // reserve: how long it lasts
	Set   string         `json:"-"`               // boot: the set that it is of (Parts)
	When  string         `json:"when,omitempty"`  // delete, power: as soon as the instance is in this state

	Limits  compute.Resources   `json:"limits,omitempty"`  // quota
	Classes compute.ClassLimits `json:"classes,omitempty"` // quota: limits for classes of priority
	Flavor  *compute.Flavor     `json:"flavor,omitempty"`  // add flavor, resize; remove: its name counts
	Axis    *compute.Capability `json:"axis,omitempty"`    // add capability; remove: its name counts
	Group   *compute.Group      `json:"group,omitempty"`
	Power   string              `json:"power,omitempty"` // "stop", "start" or "reboot"
	Host    compute.HostID      `json:"host,omitempty"`
	Label   string              `json:"label,omitempty"` // its name
	Wish    string              `json:"wish,omitempty"`  // host: "drain", "disable" or "enable"; resize: see Smaller
}

// What goes wrong.
const (
	FaultKill   = "kill"   // a process ends at once, and is started again after For
	FaultPause  = "pause"  // nothing gets in or out of a process
	FaultDeaf   = "deaf"   // nothing gets in
	FaultMute   = "mute"   // nothing gets out
	FaultCut    = "cut"    // its connections break
	FaultOff    = "off"    // its connections break and none can be opened
	FaultSlow   = "slow"   // what it sends takes By longer
	FaultLose   = "lose"   // the answer to the Nth request Key is lost, and its connection
	FaultBroker = "broker" // the broker is away, and forgets which host holds which record of the queues
	// FaultLeaderless takes the leader of partition Partition of the topic Topic away, without the prefix.
	FaultLeaderless = "leaderless"
	FaultCode       = "code"   // the broker answers requests Key with an error, Nth times at most
	FaultDriver     = "driver" // a hypervisor's calls Key fail, hang or take long
	FaultPower      = "power"  // a host loses power: its agent and its machines end
	FaultWipe       = "wipe"   // a host is set up anew: its machines and its journal are gone
	FaultRogue      = "rogue"  // a stranger takes work out of queues, acknowledges it, and does nothing with it
	FaultRing       = "ring"   // what the queue manager tells hosts to look at goes wrong, as Key says
	// Those of several brokers are in brokers.go.
)

// What goes wrong with rings.
const (
	RingLost    = "lost"    // the broker acknowledges them, and no host reads them
	RingLate    = "late"    // they come By later
	RingDoubled = "doubled" // they come, and come again By later
	RingDead    = "dead"    // the host is killed as soon as its next beacon is at the broker, for By
	// the active queue manager does not reach its group, and goes on writing, so that there are two
	RingManagers = "managers"
	RingWrong    = "wrong" // a stranger writes Nth of them to each host, for queues of all kinds and none
)

// Fault is one thing that goes wrong.
type Fault struct {
	At   Seconds `json:"at"`
	For  Seconds `json:"for,omitempty"`
	Kind string  `json:"kind"`
	Who  string  `json:"who,omitempty"` // a process or a host
	// Name and When aim it: it waits until the instance is in this state, and is
	// about the instance's host if no process is named.
	Name string `json:"name,omitempty"`
	When string `json:"when,omitempty"`
	// Point is where exactly: what happens to a process waits for the Nth time that
	// it comes there after At. Empty: at once. See points.
	Point string `json:"point,omitempty"`
	Nth   int    `json:"nth,omitempty"`
	// wipe: Claimed: with the journal of when its host had claimed the instance Name, as from a backup
	// kill, power: "lost": without its journal; "old": without its last write, at the point "journal" only: no disk
	// forgets later
	Disk string `json:"disk,omitempty"`

	// lose, code: the kind of request; driver: the method; ring: what is wrong with them
	Key  string `json:"key,omitempty"`
	Code string `json:"code,omitempty"` // code: the error; driver: the class of the failure
	// code: of requests about this topic alone, rogue: of the one queue it reads; without the prefix
	Topic     string  `json:"topic,omitempty"`
	Partition int32   `json:"partition,omitempty"` // leaderless
	After     bool    `json:"after,omitempty"`     // driver: the work is done all the same
	Hang      bool    `json:"hang,omitempty"`      // driver
	By        Seconds `json:"by,omitempty"`        // slow, driver: how much longer it takes; ring: see there
	// power: an operator declares it dead: "fence" or "forget"; word: what is said
	Dead string `json:"dead,omitempty"`

	Broker string `json:"broker,omitempty"` // link, node: "1", "2" or "3", or what it does: see brokers.go
}

func (f Fault) String() string {
	b, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Begun is when the last fault has begun and the last thing was asked.
func (s Schedule) Begun() Seconds {
	var end Seconds
	for _, f := range s.Faults {
		end = max(end, f.At)
	}
	for _, l := range s.Load {
		end = max(end, l.At)
	}
	return end
}

// Quiet is when the last fault has ended and the last thing was asked.
func (s Schedule) Quiet() Seconds {
	var end Seconds
	for _, f := range s.Faults {
		d := f.At + f.For + f.By
		if f.When != "" {
			d += SecondsOf(StateTime)
		}
		if f.Point != "" {
			d += Window
		}
		end = max(end, d)
	}
	for _, l := range s.Load {
		end = max(end, l.At)
	}
	return end
}

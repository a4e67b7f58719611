// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// Via is how boots get into the system.
type Via string

// The ways in.
const (
	ViaHTTP  Via = "http"  // through an API node
	ViaKafka Via = "kafka" // as records of the requests topic
)

// KafkaLocal, as the broker, is one that the bench starts itself.
const KafkaLocal = "local"

// Options say what is measured. The zero value of a field is its default.
type Options struct {
	Kafka string // brokers as host:port,host:port; KafkaLocal; empty: embedded
	Heap  string // of each local broker; 1g
	// Replication is how many brokers keep each record, and how many local ones are
	// started; 0: the brokers' default, one.
	Replication int
	Properties  map[string]string // settings of a local broker over the ones Berth needs
	Prefix      string            // of the run's topics; random
	Data        string            // folder for journals, and for a local broker; a temporary one

	Hosts       int           // 20
	HostSize    int           // machines that a host has room for; 0: as many as are needed
	Queues      int           // 10
	Skew        float64       // share of the boots that go to the first queue; 0: by lot, like all others
	Fill        float64       // how full hosts without GPUs are in the end; 0: as HostSize says
	NoGPUs      bool          // in any host; so it is with Fill and with fewer than 5 hosts, too
	Slots       int           // builds that a host prepares at once; 4
	Conductors  int           // 1
	Projects    int           // that boots are spread over; 16
	Partitions  int32         // of requests, reports and instances; 4
	PrepareTime time.Duration // of the simulated hypervisor; 0
	LaunchTime  time.Duration // of the simulated hypervisor; 0

	Via    Via     // ViaHTTP
	Rate   float64 // boots a second; 100
	Count  int     // boots that are measured; 1000
	Burst  int     // boots that are sent at once, every Burst/Rate seconds; 1
	Closed int     // boots in flight, each next one when one became active, whatever Rate says; 0: open load
	Warmup int     // boots before; negative: WarmupAuto
	OwnIDs bool    // choose the ids of instances, as a caller does that may repeat a request
	Churn  bool    // delete while booting, so that hosts stay 70 % full
	Floor  bool    // measure the floor too

	Apart     bool          // give each role processes of its own
	HostsEach int           // hosts of each process of agents, with Apart; 250
	Self      []string      // command that calls ServePart, with Apart
	Level     string        // of the log of those processes: "debug" to "error"; error
	Idle      time.Duration // how long nothing is asked for before what is measured; 0: not at all; negative: IdleAuto

	Ramp      bool          // measure at rising rates, until one does not keep up
	RampSteps int           // at most; 12
	RampP99   time.Duration // of active_ms: more, and a step did not keep up; 1 s

	Stall   time.Duration // nothing moved for so long: what is missing is lost; 60 s
	Profile string        // folder for profiles of the measured run; empty: none
	Say     io.Writer     // hears what happens; nil: nobody
	Title   string        // of the run, where there are several; empty: none
	Log     *zap.Logger   // of the product; nil: silent
}

// IdleAuto is two of the longest polls of a host with Apart, and none without.
const IdleAuto = -time.Second

// idleTime is what IdleAuto stands for: hosts poll for 10 s.
const idleTime = 20 * time.Second

// WarmupAuto is as many boots as make the brokers warm.
const WarmupAuto = -1

const (
	maxHosts  = 10_000
	maxQueues = 20_000
	// warmTime is how long a broker of Java needs to be warm under load.
	warmTime = 20 * time.Second
	// embeddedWarmup is enough for a broker without a compiler in it.
	embeddedWarmup = 200
)

// WithDefaults fills in what was left open.
func (o Options) WithDefaults() Options {
	or(&o.Heap, "1g")
	or(&o.Hosts, 20)
	or(&o.Queues, 10)
	or(&o.Slots, 4)
	or(&o.Conductors, 1)
	or(&o.Projects, 16)
	or(&o.Partitions, 4)
	or(&o.Via, ViaHTTP)
	or(&o.Rate, 100)
	or(&o.Count, 1000)
	or(&o.Burst, 1)
	or(&o.RampSteps, 12)
	or(&o.HostsEach, 250)
	or(&o.Level, "error")
	or(&o.RampP99, time.Second)
	or(&o.Stall, time.Minute)
	if o.Say == nil {
		o.Say = io.Discard
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

func or[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

// Check refuses what cannot be measured. It wants the defaults filled in.
func (o Options) Check() error {
	for _, n := range []struct {
		flag            string
		is, least, most float64
	}{
		{"hosts", float64(o.Hosts), 1, maxHosts},
		{"host-size", float64(o.HostSize), 0, 1 << 20},
		{"queues", float64(o.Queues), 1, maxQueues},
		{"skew", o.Skew, 0, 1},
		{"fill", o.Fill, 0, 1},
		{"slots", float64(o.Slots), 1, 1000},
		{"conductors", float64(o.Conductors), 1, float64(o.Partitions)},
		{"replication", float64(o.Replication), 0, float64(o.mostReplicas())},
		{"projects", float64(o.Projects), 1, 1000},
		{"partitions", float64(o.Partitions), 1, 1000},
		{"rate", o.Rate, 0.01, 1e6},
		{"count", float64(o.Count), 1, 1e7},
		{"burst", float64(o.Burst), 1, float64(o.Count)},
		{"closed", float64(o.Closed), 0, 1e6},
		{"ramp-steps", float64(o.RampSteps), 1, 20},
		{"ramp-p99", o.RampP99.Seconds(), 0, 3600},
		{"warmup", float64(o.Warmup), WarmupAuto, 1e7},
		{"prepare-time", o.PrepareTime.Seconds(), 0, 3600},
		{"launch-time", o.LaunchTime.Seconds(), 0, 600},
		{"hosts-per-process", float64(o.HostsEach), 1, maxHosts},
		{"idle", o.Idle.Seconds(), IdleAuto.Seconds(), 3600},
	} {
		if !(n.is >= n.least && n.is <= n.most) {
			return compute.Invalid(
				n.flag,
				fmt.Sprint(n.is),
				fmt.Sprintf("give a number from %v to %v", n.least, n.most),
			)
		}
	}
	if o.Skew > 0 && o.Queues == 1 {
		return compute.Invalid(
			"skew",
			fmt.Sprint(o.Skew),
			"there is one queue, which all boots go to: give --queues 2 or more",
		)
	}
	if o.Fill > 0 && (o.HostSize > 0 || o.Churn || o.Ramp) {
		return compute.Invalid(
			"fill",
			fmt.Sprint(o.Fill),
			"leave out --host-size, --churn and --ramp: how full hosts are in the end follows from the others",
		)
	}
	if o.Via != ViaHTTP && o.Via != ViaKafka {
		return compute.Invalid("via", string(o.Via), "give http or kafka")
	}
	if o.Closed > 0 && o.Burst > 1 {
		return compute.Invalid(
			"closed",
			fmt.Sprint(o.Closed),
			"boots of a closed loop come one by one: leave out --burst",
		)
	}
	if o.Ramp && (o.Closed > 0 || o.Churn || o.Floor) {
		return compute.Invalid(
			"ramp",
			"",
			"leave out --closed, --churn and --floor: rates rise while nothing else changes",
		)
	}
	if o.Apart && o.Profile != "" {
		return compute.Invalid(
			"profile",
			o.Profile,
			"leave out --apart: what is profiled is the bench's own process, which then has the load alone",
		)
	}
	if o.Apart && len(o.Self) == 0 {
		return compute.Invalid("apart", "", "this program cannot start its own parts")
	}
	if o.Kafka != KafkaLocal && len(o.Properties) > 0 {
		return compute.Invalid(
			"kafka-set",
			fmt.Sprint(o.Properties),
			"only a broker of --kafka local is given settings",
		)
	}
	return nil
}

// mostReplicas is how many brokers there may be to keep a record.
func (o Options) mostReplicas() int {
	switch o.Kafka {
	case "":
		return 1 // the embedded one
	case KafkaLocal:
		return 3
	}
	return 100
}

// resolved replaces what was left to the bench by numbers: the idle time, the warm-up, and with
// churn the room of hosts and machines enough to fill them.
func (o Options) resolved() Options {
	if o.Idle < 0 {
		o.Idle = 0
		if o.Apart {
			o.Idle = idleTime
		}
	}
	if o.Churn {
		or(&o.HostSize, churnSize)
	}
	if o.Warmup >= 0 {
		return o
	}
	o.Warmup = int(o.Rate * warmTime.Seconds())
	if o.Kafka == "" {
		o.Warmup = min(embeddedWarmup, int(o.Rate)+1)
	}
	if o.Churn {
		o.Warmup = max(o.Warmup, o.live())
	}
	return o
}

// live is how many machines churn keeps.
func (o Options) live() int { return int(fillByDeletes * float64(o.Hosts*o.HostSize)) }

// pacer is what says when boots that l knows are sent.
func (o Options) pacer(l *ledger, boots []*boot) pacer {
	if o.Closed > 0 {
		return closed{ledger: l, boots: boots, inFlight: o.Closed, stall: o.Stall}
	}
	return schedule{rate: o.Rate, burst: o.Burst}
}

// load says in words what the load is.
func (o Options) load() string {
	if o.Closed > 0 {
		return fmt.Sprintf("%d in flight", o.Closed)
	}
	return fmt.Sprintf("at %v/s", o.Rate)
}

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
)

// Result is what a run found. docs/BENCH.md says what each number means;
// the keys are promised to scripts.
type Result struct {
	Boots    int   `json:"boots"`
	Active   int   `json:"active"`
	Error    int   `json:"error"`
	Refused  int   `json:"refused"`
	Doubled  int   `json:"doubled"`
	Lost     int   `json:"lost"`
	Denied   int64 `json:"denied"`
	Released int64 `json:"released"`
	// Attempts are those above 1, as the log of instances has them.
	Attempts int64 `json:"attempts_above_1"`
	Retries  int64 `json:"retries"` // denied, released and attempts above 1
	Wasted   int64 `json:"wasted"`  // machines that were prepared and never launched
	// Fill is how much of what the hosts have was taken by machines when the last
	// measured boot had settled: 1 is all.
	Fill float64 `json:"fill"`

	AcceptMS          Quantiles `json:"accept_ms"`
	QueuedMS          Quantiles `json:"queued_ms"`
	GrantedMS         Quantiles `json:"granted_ms"`
	ActiveMS          Quantiles `json:"active_ms"`
	AcceptedGrantedMS Quantiles `json:"accepted_granted_ms"`
	BootsPerS         float64   `json:"boots_per_s"`

	Floor      *Floor `json:"floor"`
	FloorRatio *Ratio `json:"floor_ratio"`

	Ramp *Ramp `json:"ramp"`

	Idle *Idle `json:"idle"` // before the measured boots; nil: not measured

	CPU         CPU          `json:"cpu_s"`
	RSS         Share[int64] `json:"rss"`
	Connections int64        `json:"connections"`
	Fsyncs      int64        `json:"fsyncs"`

	Hosts    int      `json:"hosts"`
	Queues   int      `json:"queues"`
	Via      Via      `json:"via"`
	Machine  Machine  `json:"machine"`
	Versions Versions `json:"versions"`
	Settings Settings `json:"settings"`
	Wrong    []string `json:"wrong"` // a line for each thing that was lost or doubled
	// Warnings are how often what was warned of until the end of the measured boots.
	Warnings map[string]int `json:"warnings"`
	// Requests to the brokers, by the role that sent them ("agent": all of them) and API.
	Requests map[lab.Role]map[string]Requests `json:"requests"`
	Bytes    map[lab.Role]Bytes               `json:"bytes_per_boot"` // by the role that sent or received them
	// Served is what the brokers counted, for each boot; nil where the bench has not
	// started them.
	Served *Served `json:"served_per_boot"`
}

// Floor is what the bare record work took.
type Floor struct {
	AcceptedGrantedMS Quantiles `json:"accepted_granted_ms"`
	ActiveMS          Quantiles `json:"active_ms"`
	Boots             int       `json:"boots"`
	Lost              int       `json:"lost"`
	BootsPerS         float64   `json:"boots_per_s"`
	CPU               CPU       `json:"cpu_s"`

	Requests map[lab.Role]map[string]Requests `json:"requests"`
	Bytes    map[lab.Role]Bytes               `json:"bytes_per_boot"`
	Served   *Served                          `json:"served_per_boot"`
}

// Ratio is Berth's number divided by the floor's.
type Ratio struct {
	P50       float64 `json:"p50"` // of accepted_granted_ms
	P99       float64 `json:"p99"`
	BootsPerS float64 `json:"boots_per_s"`
	CPU       float64 `json:"cpu"` // brokers and clients together
	Requests  float64 `json:"requests"`
}

// Settings are what a run was asked for, and what was made of it.
type Settings struct {
	Kafka      string            `json:"kafka"` // embedded, local or remote
	Heap       string            `json:"heap"`
	Properties map[string]string `json:"properties"`
	Rate       float64           `json:"rate"`   // 0: a closed loop
	Closed     int               `json:"closed"` // boots in flight; 0: open load
	Count      int               `json:"count"`
	Burst      int               `json:"burst"`
	Warmup     int               `json:"warmup"`
	OwnIDs     bool              `json:"own_ids"`
	Churn      bool              `json:"churn"`
	Live       int               `json:"live"` // machines that churn keeps; 0: all
	HostSize   int               `json:"host_size"`
	Skew       float64           `json:"skew"` // share of the boots that the first queue gets; 0: by lot
	Fill       float64           `json:"fill"` // that was asked for; 0: none
	Slots      int               `json:"slots"`
	Conductors int               `json:"conductors"`
	Replicas   int               `json:"replication"` // 0: the brokers' default
	GPUHosts   int               `json:"gpu_hosts"`
	Flavors    int               `json:"flavors"`
	GPUQueues  int               `json:"gpu_queues"`
	Projects   int               `json:"projects"`
	Partitions int32             `json:"partitions"`
	PrepareMS  float64           `json:"prepare_ms"`
	LaunchMS   float64           `json:"launch_ms"`
	StallS     float64           `json:"stall_s"`
	Apart      bool              `json:"apart"`
	HostsEach  int               `json:"hosts_per_process"` // 0: all roles share one process
	IdleS      float64           `json:"idle_s"`
	Files      uint64            `json:"files"`       // that this process may open
	JournalsOn string            `json:"journals_on"` // kind of file system
}

func (o Options) settings(kind string, c *cloud) Settings {
	f := o.fleet()
	s := Settings{
		Kafka: kind, Properties: o.Properties, Rate: o.Rate, Count: o.Count, Burst: o.Burst, Closed: o.Closed,
		Warmup: o.Warmup, Churn: o.Churn, OwnIDs: o.OwnIDs,
		HostSize: c.size, GPUHosts: f.gpus(), Flavors: len(c.flavors), Projects: o.Projects, Partitions: o.Partitions,
		PrepareMS: millis(o.PrepareTime), Skew: o.Skew, Fill: o.Fill, Slots: o.Slots, Conductors: o.Conductors,
		Replicas: o.Replication, LaunchMS: millis(o.LaunchTime), StallS: o.Stall.Seconds(),
	}
	s.Apart, s.IdleS = o.Apart, o.Idle.Seconds()
	if o.Apart {
		s.HostsEach = o.HostsEach
	}
	if s.Closed > 0 {
		s.Rate = 0
	}
	if kind == "local" {
		s.Heap = o.Heap
	}
	if o.Churn {
		s.Live = o.live()
	}
	for _, q := range c.queues {
		if q.class == onA100 || q.class == onH100 {
			s.GPUQueues++
		}
	}
	return s
}

// times are the latencies of some boots.
type times struct{ accept, queued, granted, active, acceptedGranted []time.Duration }

func measure(boots []*boot) times {
	var t times
	add := func(to *[]time.Duration, from, until time.Time) {
		if !from.IsZero() && !until.IsZero() {
			*to = append(*to, until.Sub(from))
		}
	}
	for _, b := range boots {
		add(&t.accept, b.due, b.accepted)
		add(&t.queued, b.due, b.queued)
		add(&t.granted, b.due, b.starting)
		add(&t.active, b.due, b.active)
		add(&t.acceptedGranted, b.accepted, b.starting)
	}
	return t
}

// throughput is how many became active a second, from the moment the first was
// due until the last was active.
func throughput(boots []*boot) float64 {
	n, last := 0, time.Time{}
	for _, b := range boots {
		if !b.active.IsZero() {
			n++
			if b.active.After(last) {
				last = b.active
			}
		}
	}
	if n == 0 {
		return 0
	}
	return round(float64(n) / last.Sub(boots[0].due).Seconds())
}

// count adds up what became of boots, and forgets what became of others.
func (r *Result) count(boots []*boot) {
	r.Boots, r.Active, r.Error, r.Refused, r.Attempts = len(boots), 0, 0, 0, 0
	for _, b := range boots {
		switch {
		case !b.active.IsZero():
			r.Active++
		case b.state == compute.StateError:
			r.Error++
		case b.refused != nil && b.state == compute.StateNone:
			r.Refused++
		}
	}
	t := measure(boots)
	r.AcceptMS, r.QueuedMS, r.GrantedMS = quantiles(t.accept), quantiles(t.queued), quantiles(t.granted)
	r.ActiveMS, r.AcceptedGrantedMS = quantiles(t.active), quantiles(t.acceptedGranted)
	r.BootsPerS = throughput(boots)
	for _, b := range boots {
		r.Attempts += int64(max(b.attempt, 1) - 1)
	}
	r.Retries = r.Denied + r.Released + r.Attempts
}

// over compares with the floor.
func (r *Result) over(f Floor) {
	divide := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return round(a / b)
	}
	r.Floor = &f
	r.FloorRatio = &Ratio{
		P50:       divide(r.AcceptedGrantedMS.P50, f.AcceptedGrantedMS.P50),
		P99:       divide(r.AcceptedGrantedMS.P99, f.AcceptedGrantedMS.P99),
		BootsPerS: divide(r.BootsPerS, f.BootsPerS),
		CPU:       divide(total(r.CPU.Share), total(f.CPU.Share)),
		Requests:  divide(perBoot(r.Requests), perBoot(f.Requests)),
	}
}

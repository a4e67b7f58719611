// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/berth-project/berth/pkg/lab"
)

// Requests are one kind of request to the brokers.
type Requests struct {
	PerBoot float64 `json:"per_boot"`
	MeanMS  float64 `json:"mean_ms"` // until answered; long polls wait as long as they may
}

// Bytes of requests and answers, as Berth's clients count them, for each boot.
// Copies that brokers keep of each other's are not in them.
type Bytes struct {
	Sent     float64 `json:"sent"`
	Received float64 `json:"received"`
}

// counters are where the parts of Berth count, a registry for each role.
type counters struct {
	mu    sync.Mutex
	parts map[lab.Role]*prometheus.Registry
}

func newCounters() *counters { return &counters{parts: map[lab.Role]*prometheus.Registry{}} }

// of is the registry of the parts of a role.
func (c *counters) of(part lab.Role) prometheus.Registerer {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.parts[part]
	if r == nil {
		r = prometheus.NewRegistry()
		c.parts[part] = r
	}
	return r
}

const (
	// requestsMetric has how many requests of each API were answered, and how long
	// that took.
	requestsMetric = "berth_kafka_request_duration_seconds"
	sentMetric     = "berth_kafka_sent_bytes_total"
	receivedMetric = "berth_kafka_received_bytes_total"
)

// answered is what a metric says of one API.
type answered struct {
	N       uint64  `json:"n"`
	Seconds float64 `json:"s"`
}

// traffic is what the parts of one role had with the brokers.
type traffic struct {
	APIs     map[string]answered `json:"apis"`
	Sent     float64             `json:"sent"`     // bytes
	Received float64             `json:"received"` // bytes
}

// counts are what the parts counted so far.
type counts struct {
	traffic map[lab.Role]traffic
	saving  int              // hosts that save room for large work
	ended   map[string]int64 // savings that have ended, by why
}

func (c *counters) read() (counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := counts{traffic: map[lab.Role]traffic{}, ended: map[string]int64{}}
	for part, r := range c.parts {
		families, err := r.Gather()
		if err != nil {
			return counts{}, fmt.Errorf("metrics of %s: %w", part, err)
		}
		all.traffic[part] = trafficIn(families)
		all.addSavings(families)
	}
	return all, nil
}

const (
	savingMetric  = "berth_hosts_saving"
	savingsMetric = "berth_agent_savings_ended_total"
)

func (c *counts) addSavings(families []*dto.MetricFamily) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case savingMetric:
				c.saving += int(m.GetGauge().GetValue())
			case savingsMetric:
				for _, l := range m.GetLabel() {
					c.ended[l.GetValue()] += int64(m.GetCounter().GetValue())
				}
			}
		}
	}
}

func trafficIn(families []*dto.MetricFamily) traffic {
	t := traffic{APIs: map[string]answered{}}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case sentMetric:
				t.Sent += m.GetCounter().GetValue()
			case receivedMetric:
				t.Received += m.GetCounter().GetValue()
			case requestsMetric:
				for _, l := range m.GetLabel() {
					if h := m.GetHistogram(); l.GetName() == "api" {
						t.APIs[l.GetValue()] = answered{h.GetSampleCount(), h.GetSampleSum()}
					}
				}
			}
		}
	}
	return t
}

// between is what was asked from one moment to another, for each boot.
func between(before, after map[lab.Role]traffic, boots int) map[lab.Role]map[string]Requests {
	out := map[lab.Role]map[string]Requests{}
	for part, t := range after {
		out[part] = map[string]Requests{}
		for api, a := range t.APIs {
			b := before[part].APIs[api]
			if n := a.N - b.N; n > 0 {
				out[part][api] = Requests{
					PerBoot: round(float64(n) / float64(boots)),
					MeanMS:  round(1000 * (a.Seconds - b.Seconds) / float64(n)),
				}
			}
		}
	}
	return out
}

// bytesBetween is what went over the wire from one moment to another, by part,
// for each boot.
func bytesBetween(before, after map[lab.Role]traffic, boots int) map[lab.Role]Bytes {
	out := map[lab.Role]Bytes{}
	for part, a := range after {
		b := before[part]
		out[part] = Bytes{
			Sent:     round((a.Sent - b.Sent) / float64(boots)),
			Received: round((a.Received - b.Received) / float64(boots)),
		}
	}
	return out
}

// perBoot adds up all that Berth asks: the bench's own is left out.
func perBoot(r map[lab.Role]map[string]Requests) float64 {
	sum := 0.0
	for role := range r {
		if role != lab.RoleLoad {
			sum += perBootOf(r, role)
		}
	}
	return round(sum)
}

// perBootOf adds up all kinds of requests of a role.
func perBootOf(r map[lab.Role]map[string]Requests, role lab.Role) float64 {
	sum := 0.0
	for _, a := range r[role] {
		sum += a.PerBoot
	}
	return round(sum)
}

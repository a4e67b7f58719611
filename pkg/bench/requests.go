package bench

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests are one kind of request to the brokers.
type Requests struct {
	PerBoot float64 `json:"per_boot"`
	MeanMS  float64 `json:"mean_ms"` // until answered; long polls wait as long as they may
}

// counters are where the parts of Berth count, a registry for each kind.
type counters struct {
	mu    sync.Mutex
	parts map[string]*prometheus.Registry
}

func newCounters() *counters { return &counters{parts: map[string]*prometheus.Registry{}} }

// of is the registry of a kind of part.
func (c *counters) of(part string) prometheus.Registerer {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.parts[part]
	if r == nil {
		r = prometheus.NewRegistry()
		c.parts[part] = r
	}
	return r
}

// requestsMetric has how many requests of each API were answered, and how long
// that took.
const requestsMetric = "berth_kafka_request_duration_seconds"

// answered is what a metric says of one API.
type answered struct {
	n       uint64
	seconds float64
}

// read answers, by part and API, what was asked so far.
func (c *counters) read() (map[string]map[string]answered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[string]answered{}
	for part, r := range c.parts {
		families, err := r.Gather()
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", part, err)
		}
		all[part] = map[string]answered{}
		for _, f := range families {
			if f.GetName() != requestsMetric {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if h := m.GetHistogram(); l.GetName() == "api" {
						all[part][l.GetValue()] = answered{h.GetSampleCount(), h.GetSampleSum()}
					}
				}
			}
		}
	}
	return all, nil
}

// between is what was asked from one moment to another, for each boot.
func between(before, after map[string]map[string]answered, boots int) map[string]map[string]Requests {
	out := map[string]map[string]Requests{}
	for part, apis := range after {
		out[part] = map[string]Requests{}
		for api, a := range apis {
			b := before[part][api]
			if n := a.n - b.n; n > 0 {
				out[part][api] = Requests{PerBoot: round(float64(n) / float64(boots)), MeanMS: round(1000 * (a.seconds - b.seconds) / float64(n))}
			}
		}
	}
	return out
}

// perBoot adds all up.
func perBoot(r map[string]map[string]Requests) float64 {
	sum := 0.0
	for _, apis := range r {
		for _, a := range apis {
			sum += a.PerBoot
		}
	}
	return round(sum)
}

package bench

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

const (
	// requestsMetric has how many requests of each API were answered, and how long
	// that took.
	requestsMetric = "berth_kafka_request_duration_seconds"
	sentMetric     = "berth_kafka_sent_bytes_total"
	receivedMetric = "berth_kafka_received_bytes_total"
)

// answered is what a metric says of one API.
type answered struct {
	n       uint64
	seconds float64
}

// traffic is what the parts of one kind had with the brokers.
type traffic struct {
	apis           map[string]answered
	sent, received float64 // bytes
}

// read answers, by part, what was asked so far.
func (c *counters) read() (map[string]traffic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]traffic{}
	for part, r := range c.parts {
		families, err := r.Gather()
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", part, err)
		}
		all[part] = trafficIn(families)
	}
	return all, nil
}

func trafficIn(families []*dto.MetricFamily) traffic {
	t := traffic{apis: map[string]answered{}}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case sentMetric:
				t.sent += m.GetCounter().GetValue()
			case receivedMetric:
				t.received += m.GetCounter().GetValue()
			case requestsMetric:
				for _, l := range m.GetLabel() {
					if h := m.GetHistogram(); l.GetName() == "api" {
						t.apis[l.GetValue()] = answered{h.GetSampleCount(), h.GetSampleSum()}
					}
				}
			}
		}
	}
	return t
}

// between is what was asked from one moment to another, for each boot.
func between(before, after map[string]traffic, boots int) map[string]map[string]Requests {
	out := map[string]map[string]Requests{}
	for part, t := range after {
		out[part] = map[string]Requests{}
		for api, a := range t.apis {
			b := before[part].apis[api]
			if n := a.n - b.n; n > 0 {
				out[part][api] = Requests{PerBoot: round(float64(n) / float64(boots)), MeanMS: round(1000 * (a.seconds - b.seconds) / float64(n))}
			}
		}
	}
	return out
}

// bytesBetween is what went over the wire from one moment to another, by part,
// for each boot.
func bytesBetween(before, after map[string]traffic, boots int) map[string]Bytes {
	out := map[string]Bytes{}
	for part, a := range after {
		b := before[part]
		out[part] = Bytes{Sent: round((a.sent - b.sent) / float64(boots)), Received: round((a.received - b.received) / float64(boots))}
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

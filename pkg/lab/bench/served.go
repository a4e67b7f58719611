// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"

	"github.com/berth-project/berth/pkg/localkafka"
)

// Served is what brokers have counted themselves, for each boot or each second.
// Their own requests to each other and to themselves are in it.
type Served struct {
	Requests map[string]float64 `json:"requests"` // by API
	// LockReleases is how often a share partition was unlocked: each time a share
	// fetch looked at it.
	LockReleases float64 `json:"lock_releases"`
	// BytesIn and BytesOut went over the brokers' connections; RecordBytesIn and
	// RecordBytesOut are those of them that were batches of records.
	BytesIn        float64 `json:"bytes_in"`
	BytesOut       float64 `json:"bytes_out"`
	RecordBytesIn  float64 `json:"record_bytes_in"`
	RecordBytesOut float64 `json:"record_bytes_out"`
}

// served is the same since the brokers began.
type served Served

// servedBeans are the MBeans that are read.
func servedBeans() []localkafka.MBeans {
	return []localkafka.MBeans{
		{Pattern: "kafka.network:type=RequestMetrics,name=RequestsPerSec,*", Attribute: "Count"},
		{Pattern: "kafka.server:type=SharePartitionMetrics,name=FetchLockTimeMs,*", Attribute: "Count"},
		{Pattern: "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec", Attribute: "Count"},
		{Pattern: "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec", Attribute: "Count"},
		{Pattern: "kafka.server:type=socket-server-metrics,*", Attribute: "incoming-byte-total"},
		{Pattern: "kafka.server:type=socket-server-metrics,*", Attribute: "outgoing-byte-total"},
	}
}

// askServed asks all nodes of a cluster.
func askServed(ctx context.Context, c *localkafka.Cluster) (served, error) {
	var all []localkafka.Count
	for id := range c.Nodes() {
		counts, err := c.Counts(ctx, id+1, servedBeans()...)
		if err != nil {
			return served{}, err
		}
		all = append(all, counts...)
	}
	return servedIn(all), nil
}

// ask is what the brokers have counted; nil where they cannot be asked.
func (b *broker) ask(ctx context.Context) (*served, error) {
	if b.served == nil {
		return nil, nil
	}
	s, err := b.served(ctx)
	return &s, err
}

// servedIn adds up what MBeans say. Every fetch is counted twice there, once as
// Fetch and once by the kind of client; the second is left out.
func servedIn(counts []localkafka.Count) served {
	s := served{Requests: map[string]float64{}}
	for _, c := range counts {
		switch name := c.Keys["name"]; {
		case name == "RequestsPerSec":
			if api := c.Keys["request"]; api != "FetchConsumer" && api != "FetchFollower" {
				s.Requests[api] += c.Value
			}
		case name == "FetchLockTimeMs":
			s.LockReleases += c.Value
		case name == "BytesInPerSec":
			s.RecordBytesIn += c.Value
		case name == "BytesOutPerSec":
			s.RecordBytesOut += c.Value
		case c.Attribute == "incoming-byte-total":
			s.BytesIn += c.Value
		case c.Attribute == "outgoing-byte-total":
			s.BytesOut += c.Value
		}
	}
	return s
}

// since is what was counted between two moments, divided by so many boots or
// seconds; nil where that is not known. Kinds of which there was none are left out.
func (s *served) since(before *served, by float64) *Served {
	if s == nil || before == nil {
		return nil
	}
	out := Served{
		Requests:       map[string]float64{},
		LockReleases:   round((s.LockReleases - before.LockReleases) / by),
		BytesIn:        round((s.BytesIn - before.BytesIn) / by),
		BytesOut:       round((s.BytesOut - before.BytesOut) / by),
		RecordBytesIn:  round((s.RecordBytesIn - before.RecordBytesIn) / by),
		RecordBytesOut: round((s.RecordBytesOut - before.RecordBytesOut) / by),
	}
	for api, n := range s.Requests {
		if more := n - before.Requests[api]; more > 0 {
			out.Requests[api] = round(more / by)
		}
	}
	return &out
}

// Total adds up all kinds of requests.
func (s Served) Total() float64 {
	sum := 0.0
	for _, n := range s.Requests {
		sum += n
	}
	return round(sum)
}

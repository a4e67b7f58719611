// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/localkafka"
)

// Nodes, versions of an API and share partitions add up; a fetch is one request,
// though a broker counts it under two names.
func TestServed(t *testing.T) {
	count := func(attribute string, value float64, keys ...string) localkafka.Count {
		c := localkafka.Count{Attribute: attribute, Value: value, Keys: map[string]string{}}
		for i := 0; i < len(keys); i += 2 {
			c.Keys[keys[i]] = keys[i+1]
		}
		return c
	}
	request := func(api string, value float64) localkafka.Count {
		return count("Count", value, "name", "RequestsPerSec", "request", api)
	}
	before := servedIn([]localkafka.Count{request("Fetch", 10), request("Produce", 5)})
	after := servedIn([]localkafka.Count{
		request(
			"Fetch",
			30,
		),
		request("FetchConsumer", 25), request("FetchFollower", 5), request("Produce", 5),
		request("ShareFetch", 3), request("ShareFetch", 5),
		count(
			"Count",
			7,
			"name",
			"FetchLockTimeMs",
			"partition",
			"0",
		),
		count("Count", 9, "name", "FetchLockTimeMs", "partition", "1"),
		count("Count", 200, "name", "BytesInPerSec"), count("Count", 400, "name", "BytesOutPerSec"),
		count(
			"incoming-byte-total",
			100,
			"listener",
			"A",
		),
		count("incoming-byte-total", 300, "listener", "B"), count("outgoing-byte-total", 800, "listener", "A"),
	})
	want := &Served{
		Requests: map[string]float64{"Fetch": 10, "ShareFetch": 4}, LockReleases: 8,
		BytesIn: 200, BytesOut: 400, RecordBytesIn: 100, RecordBytesOut: 200,
	}
	got := after.since(&before, 2)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Total() != 14 {
		t.Errorf("%v in all, want 14", got.Total())
	}
	if s := (*served)(nil).since(&before, 1); s != nil {
		t.Errorf("of brokers that cannot be asked: %+v", s)
	}
}

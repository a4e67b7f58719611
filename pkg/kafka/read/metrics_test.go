// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// However many hosts and queues there are, there are few kinds of topics.
func TestTopicLabelsAreFew(t *testing.T) {
	topics := wire.Topics{Prefix: "p."}
	for topic, want := range map[string]string{
		topics.Catalog(): "catalog", topics.Instances(): "instances", topics.Host("h1"): "host",
		topics.Host("h2"):        "host",
		topics.Build("m1.small"): "build", "p.whatever": "other", "": "other",
	} {
		if got := kindOf(topics, topic); got != want {
			t.Errorf("%q is %q, not %q", topic, got, want)
		}
	}
}

func TestHostStreamsAreManyAndOneThing(t *testing.T) {
	topics := wire.Topics{Prefix: "p."}
	if a, b := readOf(topics, "p.host.h1"), readOf(topics, "p.hosts"); a != "read host streams" || b != "read p.hosts" {
		t.Errorf("%q %q", a, b)
	}
}

// A reader that has reached the end and is then not answered is behind, for all that it knows.
func TestBehindWhileNothingAnswers(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newMetrics(reg).reading("hosts")
	defer r.show()()
	for _, step := range []struct {
		do   func()
		want float64
	}{{func() {}, 1}, {func() { r.took(0, true) }, 0}, {r.failed, 1}, {func() { r.took(1, true) }, 0}} {
		step.do()
		telemetrytest.Is(t, reg, step.want, "berth_read_behind", "topic", "hosts")
	}
}

// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"

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

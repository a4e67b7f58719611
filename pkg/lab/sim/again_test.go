// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Only the topics of queues are made anew: whoever reads another, and is told that it is not the one it was, has lost
// records.
func TestObserversBeginAgain(t *testing.T) {
	topics := wire.Topics{Prefix: prefix}
	for topic, want := range map[string]bool{
		topics.Build("m1.small"): true, topics.Instances(): false, topics.Hosts(): false, topics.Reports(): false,
		topics.Queues(): false, topics.Rejected(): false, topics.Host("host-1"): false,
	} {
		if got := mayBeAnother(topics, topic); got != want {
			t.Errorf("an observer of %s begins again: %t", topic, got)
		}
	}
	another := compute.Conflict("topic", "t", "was made again", "")
	for want, err := range map[bool]error{true: another, false: errors.New("other")} {
		if isAnother(err) != want {
			t.Errorf("%v says that a topic is another: %t", err, !want)
		}
	}
	if isAnother(nil) {
		t.Error("a reader that was stopped says that its topic is another")
	}
}

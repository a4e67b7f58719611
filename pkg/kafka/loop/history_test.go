// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// A partition with another log for an input is set aside, and no other is.
func TestInputsOfAnotherHistoryAreSetAside(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		l, aside := newLooping(t, c), newAsides()
		l.startWith(t, Options{Group: "g", SetAside: aside.set})
		l.decided(t)
		brokertest.AnotherHistory(c.Cluster)
		l.send(t)
		aside.await(t, 1)
		if why := aside.now[0].Why; !strings.Contains(why, "of a log that ended at 0") {
			t.Error(why)
		}
		l.end(t)
	})
}

package loop

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/kafka/internal/celltest"
)

// The partition of a loop whose input is another log is set aside, and no other is.
func TestInputsOfAnotherHistoryAreSetAside(t *testing.T) {
	celltest.WithRefusing(t, 1, func(t *testing.T, c celltest.Refusing) {
		l, aside := newLooping(t, c), newAsides()
		l.startWith(t, Options{Group: "g", SetAside: aside.set})
		l.decided(t)
		celltest.AnotherHistory(c.Cluster)
		l.send(t)
		aside.await(t, 1)
		if why := aside.now[0].Why; !strings.Contains(why, "of a log that ended at 0") {
			t.Error(why)
		}
		l.end(t)
	})
}

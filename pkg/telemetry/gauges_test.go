// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestGauges(t *testing.T) {
	g := NewGauges("berth_test", "What is tested.", "what", "where")
	first := g.Ask(func(say Say) { say(1, "a", "here"); say(2, "b", "here") })
	second := g.Ask(func(say Say) { say(10, "a", "here"); say(20, "a", "there") })
	shows(t, g, `berth_test{what="a",where="here"} 11`, `berth_test{what="a",where="there"} 20`,
		`berth_test{what="b",where="here"} 2`)
	second()
	second()
	shows(t, g, `berth_test{what="a",where="here"} 1`, `berth_test{what="b",where="here"} 2`)
	first()
	shows(t, g)
}

func TestNoGauges(t *testing.T) {
	stop := (*Gauges)(nil).Ask(func(Say) { t.Error("asked") })
	stop()
}

// A source may take a lock under which its owner stops being asked.
func TestGaugesHoldNoLockWhileAsking(t *testing.T) {
	g := NewGauges("berth_test", "What is tested.")
	var owner sync.Mutex
	asking, stopped := make(chan struct{}), make(chan struct{})
	stop := g.Ask(func(Say) {
		close(asking)
		<-stopped
		owner.Lock()
		defer owner.Unlock()
	})
	go func() {
		<-asking
		owner.Lock()
		defer owner.Unlock()
		stop()
		close(stopped)
	}()
	shows(t, g)
}

func shows(t *testing.T, g *Gauges, want ...string) {
	t.Helper()
	text := ""
	if len(want) > 0 {
		text = "# HELP berth_test What is tested.\n# TYPE berth_test gauge\n" + strings.Join(want, "\n") + "\n"
	}
	if err := testutil.CollectAndCompare(g, strings.NewReader(text)); err != nil {
		t.Error(err)
	}
}

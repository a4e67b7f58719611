package kafka

import (
	"testing"
	"time"
)

// Without a broker it still stops in time, also from the middle of a transaction.
func TestLoopStopsWithoutABroker(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		a := loop(t, cfg, LoopOptions{StopTimeout: 300 * time.Millisecond}, newLedger(t, "a"))
		await(t, a.Ready(), "the loop is ready")
		feeding(t, cfg, "k").more(20, 1)
		a.await(t, "apply 0 k 10")
		began := time.Now()
		a.kill(t)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
